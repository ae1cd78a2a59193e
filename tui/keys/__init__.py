"""Key bindings and key names."""
