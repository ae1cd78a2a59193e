"""The control socket of a session: checkpoints and transactions requested from inside the sandbox."""
