"""A network of the sandbox's own, from which only what rules name can be reached."""
