"""The menu of `agent-dev` without arguments."""
