"""The review of a session as one static HTML page."""
