"""Subcommands for settings, agents, agent homes and this machine."""
