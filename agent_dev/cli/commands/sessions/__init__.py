"""Subcommands about sessions: list, enter, resume and end them; their checkpoints and logs."""
