"""Adapters to public benchmarks; their data stays where it is."""
