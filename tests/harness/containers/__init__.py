"""Container images and programs for tests of containers in the sandbox."""
