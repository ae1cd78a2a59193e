"""Copy the bytes of a connection both ways."""
