"""`publish: [auto]`: publish every port that a program inside listens on."""

import asyncio
import socket
from collections.abc import Callable

from agent_dev.config.published_ports import LOOPBACK
from agent_dev.network.published import listeners
from agent_dev.network.published.port_list import PortList
from agent_dev.network.published.publisher import Publisher

_INTERVAL = 0.5  # seconds between two checks
_MAX_PORTS = 64
_FIRST_UNPRIVILEGED = 1024
# A client outside must not mistake a server of the agent for the user's own, so the ports of databases etc. are remapped.
_SERVICES = frozenset((1433, 1521, 2181, 3306, 4222, 5432, 5671, 5672, 6379, 8086, 9042, 9092, 9200, 9300, 11211, 27017))


def outside_ports(inside: int) -> tuple[int, ...]:
    """Return the ports to try outside for a port inside; 0: any free port. Pure."""
    return (0,) if inside < _FIRST_UNPRIVILEGED or inside in _SERVICES else (inside, 0)


class AutomaticPorts:
    """The ports that `auto` has published. `look` returns the ports on which programs inside listen."""

    def __init__(self, publisher: Publisher, look: Callable[[], set[int]], others: frozenset[int], ports: PortList) -> None:
        self._publisher, self._look, self._ports = publisher, look, ports
        self._others = others  # ports inside that the gateway listens on, or that are already published
        self._open: dict[int, socket.socket] = {}

    async def follow(self) -> None:
        """Publish and withdraw ports until cancelled."""
        while True:
            self.update()
            await asyncio.sleep(_INTERVAL)

    def update(self) -> None:
        """Publish new ports, and withdraw those on which no program listens any more."""
        try:
            found = self._look() - self._others
        except OSError:
            return  # no answer this time
        gone, new = self._open.keys() - found, sorted(found - self._open.keys())
        for inside in gone:
            self._publisher.withdraw(self._open.pop(inside))
            self._ports.remove(inside)
        is_changed = bool(gone)
        for inside in new[: _MAX_PORTS - len(self._open)]:
            is_changed = self._publish(inside) or is_changed
        if is_changed:
            self._ports.write()

    def _publish(self, inside: int) -> bool:
        for outside in outside_ports(inside):
            try:
                self._open[inside] = socket.socket(fileno=listeners.listen(LOOPBACK, outside))
            except OSError:
                continue  # in use
            self._publisher.publish(self._open[inside], inside)
            self._ports.add(self._open[inside], inside)
            return True
        return False
