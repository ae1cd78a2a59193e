"""Subcommands that show, merge and undo the changes and commits of sessions."""
