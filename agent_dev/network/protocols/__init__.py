"""The protocols that are inspected: the name in TLS, and the host of each HTTP request."""
