"""Scripts that run inside the sandbox and import nothing from agent-dev."""
