"""Subcommands about settings, agents, homes and this machine."""
