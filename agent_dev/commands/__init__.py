"""Use cases: a request in, a result value out; nothing here prints."""
