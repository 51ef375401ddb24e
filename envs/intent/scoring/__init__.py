"""Intent-tool scores: how likely a frozen model is to call each tool on offer, decoys included, along a trajectory."""
