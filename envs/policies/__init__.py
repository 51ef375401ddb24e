"""Policies: what writes the next message. Only `local` and `loading` need torch."""
