"""The gateway's end."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

from agent_dev.config.network_rules import parse_rules
from agent_dev.network.connecting import DirectConnector
from agent_dev.network.connection_log import ConnectionLog
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
