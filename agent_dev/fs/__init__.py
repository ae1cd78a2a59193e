"""File trees: reading, copying, durability and extended attributes, without following symlinks."""
