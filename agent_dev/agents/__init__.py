"""The coding agents that profiles describe: their packages, versions and installation in the agent home."""
