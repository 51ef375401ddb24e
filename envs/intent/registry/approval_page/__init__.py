"""Decide in a browser what agents ask approval for; `server` has the whole of it."""
