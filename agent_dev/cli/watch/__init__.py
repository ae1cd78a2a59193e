"""The subcommand `watch`: a live view of a running session."""
