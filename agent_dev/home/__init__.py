"""The agent's own home directory."""
