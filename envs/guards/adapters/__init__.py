"""The guard in front of live agents of other frameworks; each module needs the package that it is for."""
