"""Adapters from sessions to the sources that the review screen (`tui`) reads."""
