"""Print results of commands: text for people, JSON for programs."""
