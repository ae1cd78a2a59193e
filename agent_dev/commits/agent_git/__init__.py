"""A package of agent-dev."""
