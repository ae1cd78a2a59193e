"""The first program of a command that joins a sandbox."""

# Started through a program that no agent can write to: an agent's script `#!/proc/self/exe` would run our own Python, and the
# agent could then change that on the host.
STEP = ("/bin/sh", "-c", 'exec "$@"', "agent-dev")
