"""Forward one captured connection: decide, resolve, check, connect, copy, log.

Each step has its own replaceable object: a Decider, a Connector, and a Handler. Hosts with a credential have a different Handler.
"""

import asyncio
import socket
from collections.abc import Coroutine, Mapping
from typing import Any

from agent_dev.config.network_rules import HTTPS, AddressRule, LocalRule, NameRule
from agent_dev.network.access import Denied
from agent_dev.network.connecting import Connector, connect_local, failure_reason
from agent_dev.network.connection import Connection, refuse
from agent_dev.network.connection_handlers import Handler, LocalHandler, RelayHandler
from agent_dev.network.connection_log import DENY, ConnectionLog
from agent_dev.network.deciding.caller_notes import CallerNotes
from agent_dev.network.deciding.deciders import Decider
from agent_dev.quick_dataclass import dataclass, field

_ENDED = "the sandbox ended before a decision"


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Forwards the connections of one sandbox."""

    log: ConnectionLog
    decider: Decider
    connector: Connector
    notes: CallerNotes
    handlers: Mapping[tuple[str, int], Handler] = field(default_factory=dict)  # by name and port; default: `RelayHandler`

    async def forward(self, connection: Connection) -> None:
        """Forward a connection to a name or address. Raises OSError."""
        await self._log_end(connection, self._decide_and_carry(connection))

    async def forward_local(self, connection: Connection, rule: LocalRule) -> None:
        """Forward a connection to a port of the host's loopback. Raises OSError."""
        connection.entry.row["rule"] = rule.text
        await self._log_end(connection, LocalHandler().handle(connection, lambda: connect_local(rule.port)))

    async def _decide_and_carry(self, connection: Connection) -> None:
        handler = self.handlers.get((connection.wanted.name, connection.wanted.port))
        if handler:
            connection.lead_to(HTTPS)  # plain HTTP inside becomes TLS outside
        rule = await self.decider.decide(connection)
        connection.entry.row["rule"] = rule.text
        await (handler or RelayHandler()).handle(connection, lambda: self._open_server(connection, rule))

    async def _log_end(self, connection: Connection, carried: Coroutine[Any, Any, None]) -> None:
        """Run a connection until it ends, log it, and refuse it if it is denied."""
        try:
            await carried
        except Denied as error:
            await self._refuse(connection, error)
        except OSError as error:
            self._log(connection, problem=failure_reason(error))
            raise
        except asyncio.CancelledError:
            is_decided = "rule" in connection.entry.row
            self._log(connection, **({} if is_decided else {"decision": DENY, "why": _ENDED}))
            raise
        else:
            self._log(connection)

    async def _open_server(self, connection: Connection, rule: NameRule | AddressRule) -> socket.socket:
        addresses = await self.connector.addresses(self.decider.rules, rule, connection.wanted)
        server = await self.connector.connect(connection.wanted, addresses)
        connection.entry.row["server"] = server.getpeername()[0]
        return server

    async def _refuse(self, connection: Connection, error: Denied) -> None:
        self._log(connection, decision=DENY, why=str(error))
        await self.notes.tell_before_end(connection, f"{connection.wanted}: {error}")
        await refuse(connection, str(error))

    def _log(self, connection: Connection, **fields: str) -> None:
        if not connection.is_logged:
            self.log.add(connection.entry.finish(**fields))
