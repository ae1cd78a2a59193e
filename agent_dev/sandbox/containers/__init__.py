"""Containers in the sandbox."""
