"""The network of a run, if it is one of the sandbox's own: its gateway, and why a host is reached."""
