"""Test doubles and drivers: a terminal with a user at it, a scripted model, Claude Code, PostgreSQL, disks that fail."""
