"""One run of an agent: request, preparation, the run itself, and the session that remains."""
