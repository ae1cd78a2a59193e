"""Commands of the user that join a running sandbox: the client, the service in the setup process, and their first program."""
