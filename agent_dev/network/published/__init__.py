"""Published ports: servers inside that the host can reach on its own loopback."""
