"""Stand-in addresses: each name that the sandbox looks up gets its own, so a connection's address identifies the name. Pure.

The pool is public address space, because agents refuse to fetch from 198.18.0.0/15 or private ranges. No packet with such an
address leaves the sandbox's network namespace.
"""

from ipaddress import IPv4Address, IPv4Network

POOL = IPv4Network("28.0.0.0/8")
MAX_NAMES = 65536
_FIRST = int(POOL.network_address) + 256


class NameTable:
    """Names and their stand-in addresses."""

    def __init__(self) -> None:
        self._addresses: dict[str, IPv4Address] = {}
        self._names: list[str] = []

    def address_of(self, name: str) -> IPv4Address | None:
        """Return the stand-in address of a canonical name; None when the table is full."""
        found = self._addresses.get(name)
        if found is None and len(self._names) < MAX_NAMES:
            found = self._addresses[name] = IPv4Address(_FIRST + len(self._names))
            self._names.append(name)
        return found

    def name_of(self, address: object) -> str:
        """Return the name that has a stand-in address; "" if none has it."""
        if not isinstance(address, IPv4Address):
            return ""
        number = int(address) - _FIRST
        return self._names[number] if 0 <= number < len(self._names) else ""
