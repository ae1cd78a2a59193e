"""Subcommands about runs."""
