"""Import of an agent's commits."""
