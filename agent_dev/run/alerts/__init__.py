"""Alerts of a user who is not at the terminal: the agent has ended, or is idle."""
