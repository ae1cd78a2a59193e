"""What the tests drive agent-dev with: a terminal with a person at it, a scripted model, Claude Code and PostgreSQL."""
