"""The hands: disk, processes, kernel, git, YAML, clock. They carry plans out and have no opinions."""
