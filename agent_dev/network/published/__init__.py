"""Published ports: servers inside that this machine reaches on its own loopback."""
