"""The broker: requests to a host get the user's key on their way out; inside there is a stand-in, worth nothing elsewhere."""
