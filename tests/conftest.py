"""Settings for all tests: property tests draw the same examples on every run and keep no files."""

from hypothesis import settings

settings.register_profile("demur", deadline=None, derandomize=True, database=None)
settings.load_profile("demur")
