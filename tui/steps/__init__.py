"""What each kind of event makes of the state: one module a kind, every one a pure function."""
