"""The gateway's end."""

import asyncio
import contextlib
import ipaddress
import json
import socket
from pathlib import Path
from typing import Any

from agent_dev.config.network_rules import AddressRule, NameRule, RuleSet, parse_rules
from agent_dev.network.access import Destination
from agent_dev.network.connecting import DirectConnector
from agent_dev.network.connection import Connection
from agent_dev.network.connection_log import ConnectionEntry, ConnectionLog
from agent_dev.network.deciding.caller_notes import CallerNotes
from agent_dev.network.deciding.deciders import RuleDecider
from agent_dev.network.forwarding import Forwarder
from agent_dev.network.gateway import Gateway
from agent_dev.network.programs import ProgramFinder

_SOCK_DIAG = 4


def test_connections_that_nobody_has_accepted_are_logged_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "network.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diag:
        server.setblocking(False)
        rules = parse_rules([f"localhost:9 as {server.getsockname()[1]}"], ())
        finder = ProgramFinder(diag)

        async def end() -> bytes:
            log = ConnectionLog(str(path))
            forwarder = Forwarder(log, RuleDecider(rules), DirectConnector(), CallerNotes(finder))
            gateway = Gateway([server], forwarder, finder)
            gateway.start()
            for _ in range(2):
                socket.create_connection(server.getsockname()).close()
            await gateway.close()
            return log.end()

        report = asyncio.run(end())
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["name"] for row in rows] == ["localhost", "localhost"]
    assert report.startswith(b"2 ")


class Waiting:
    """A decider that never decides."""

    rules: RuleSet = parse_rules([], ())

    async def decide(self, connection: Connection) -> NameRule | AddressRule:
        """Wait."""
        await asyncio.Event().wait()
        raise AssertionError(connection)


def test_a_connection_that_ends_without_a_decision_is_logged_as_denied(tmp_path: Path) -> None:
    path = tmp_path / "network.jsonl"
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diag:
        wanted = Destination("a.example", ipaddress.ip_address("192.0.2.1"), 443)

        async def end() -> None:
            log = ConnectionLog(str(path))
            forwarder = Forwarder(log, Waiting(), DirectConnector(), CallerNotes(ProgramFinder(diag)))
            task = asyncio.create_task(forwarder.forward(Connection(wanted, theirs, ConnectionEntry(wanted))))
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            log.end()

        asyncio.run(end())
    row = json.loads(path.read_text())
    assert (row["name"], row["decision"], row["why"]) == ("a.example", "deny", "the sandbox ended before a decision")
