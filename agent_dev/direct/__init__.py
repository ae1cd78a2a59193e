"""Direct mode: an agent works in the real tree, and a snapshot is taken first."""
