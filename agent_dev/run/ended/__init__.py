"""Ended sessions: run a command on the files of one, or copy it."""
