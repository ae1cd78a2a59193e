"""The broker: adds the user's real key to requests to a host. The sandbox has only a stand-in key, which is useless elsewhere."""
