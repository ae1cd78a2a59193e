"""Forward one captured connection: decide, resolve and check, connect, carry, log.

Each step has one object, which can be replaced: a Decider, a Connector, and a Handler, of hosts with a credential another one.
"""

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_dev.config.network_rules import AddressRule, LocalRule, NameRule, RuleSet
from agent_dev.network.access import Denied
from agent_dev.network.connecting import Connector, connect_local, failure_reason
from agent_dev.network.connection import Connection, refuse
from agent_dev.network.connection_log import DENY, ConnectionLog
from agent_dev.network.deciding import Decider
from agent_dev.network.handling import Handler, LocalHandler, OpenServer, RelayHandler


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Forwards the connections of one sandbox."""

    rules: RuleSet
    log: ConnectionLog
    decider: Decider
    connector: Connector
    handlers: Mapping[str, Handler] = field(default_factory=dict)  # by name; of others `RelayHandler`

    async def forward(self, connection: Connection) -> None:
        """Forward a connection to a name or address. Raises OSError."""
        try:
            rule = await self.decider.decide(connection)
        except Denied as error:
            await self._refuse(connection, error)
            return
        connection.entry.row["rule"] = rule.text
        handler = self.handlers.get(connection.wanted.name) or RelayHandler()
        await self._carry(connection, handler, lambda: self._open_server(connection, rule))

    async def forward_local(self, connection: Connection, rule: LocalRule) -> None:
        """Forward a connection to a port of the host's loopback. Raises OSError."""
        connection.entry.row["rule"] = rule.text
        await self._carry(connection, LocalHandler(), lambda: connect_local(rule.port))

    async def _carry(self, connection: Connection, handler: Handler, open_server: OpenServer) -> None:
        try:
            await handler.handle(connection, open_server)
        except Denied as error:
            await self._refuse(connection, error)
        except OSError as error:
            self._log(connection, problem=failure_reason(error))
            raise
        except asyncio.CancelledError:
            self._log(connection)  # the sandbox has ended
            raise
        else:
            self._log(connection)

    async def _open_server(self, connection: Connection, rule: NameRule | AddressRule) -> socket.socket:
        addresses = await self.connector.addresses(self.rules, rule, connection.wanted)
        return await self.connector.connect(connection.wanted, addresses)

    async def _refuse(self, connection: Connection, error: Denied) -> None:
        self._log(connection, decision=DENY, why=str(error))
        await refuse(connection, str(error))

    def _log(self, connection: Connection, **fields: str) -> None:
        self.log.add(connection.entry.finish(**fields))
