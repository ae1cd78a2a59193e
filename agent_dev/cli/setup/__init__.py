"""Ask for settings and write config.yaml: `agent-dev init`."""
