"""The mode `ask`: connections that wait for the user's answer."""
