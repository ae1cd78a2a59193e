"""Run a coding agent on a copy-on-write view of a repository, then review and merge its changes."""

__version__ = "0.1.0"
