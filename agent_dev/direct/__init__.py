"""Direct mode: an agent works in the real tree behind a snapshot."""
