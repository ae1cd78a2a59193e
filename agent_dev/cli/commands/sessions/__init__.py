"""Subcommands that list, enter, resume and end sessions, or show their checkpoints and logs."""
