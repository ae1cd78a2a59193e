"""Access to the user's repository: running git, git's file formats, and the agent's private copy."""
