"""Images of the user's clipboard for the agent: a server outside reads them and passes them on, one way."""
