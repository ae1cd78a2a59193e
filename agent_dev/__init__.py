"""Run a coding agent on a copy-on-write view of a repository and take home what is chosen."""

__version__ = "0.1.0"
