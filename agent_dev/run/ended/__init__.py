"""Ended sessions: open one for a look, or copy it."""
