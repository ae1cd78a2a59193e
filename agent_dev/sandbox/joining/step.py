"""The first program of a command that joins a sandbox."""

# By way of a program that no agent can write to: a script `#!/proc/self/exe` of the agent's would run our own Python, and the
# agent could then change that on the host.
STEP = ("/bin/sh", "-c", 'exec "$@"', "agent-dev")
