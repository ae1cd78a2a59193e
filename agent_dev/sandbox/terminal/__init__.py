"""The terminal of a sandbox: its own pty, the relay to the user's terminal, and the reset at the end."""
