"""Access to a git directory that an agent wrote and that is not trusted."""
