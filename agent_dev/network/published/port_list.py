"""The list of published ports in the session's folder (session/published.py reads it)."""

import json
import os
import socket


class PortList:
    """Published ports, each as port inside, address and port outside; `write` writes them to the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rows: dict[int, tuple[int, str, int]] = {}

    def add(self, listener: socket.socket, inside: int) -> None:
        """Add a listening socket for a port inside."""
        address, outside = listener.getsockname()[:2]
        self._rows[inside] = (inside, address, outside)

    def remove(self, inside: int) -> None:
        """Remove a port."""
        self._rows.pop(inside, None)

    def write(self) -> None:
        """Write the file."""
        try:
            with open(f"{self._path}.new", "w", encoding="ascii") as file:
                json.dump(sorted(self._rows.values()), file)
            os.replace(f"{self._path}.new", self._path)
        except OSError:
            return  # disk full: the ports work, but are not listed
