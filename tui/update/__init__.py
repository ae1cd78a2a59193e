"""Pure update functions, one module per kind of event."""
