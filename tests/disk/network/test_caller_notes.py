"""Lines on the stderr of the program that made a connection."""

import asyncio
import os
import socket
from ipaddress import ip_address

import pytest

from agent_dev.linux import process
from agent_dev.network.access import Destination
from agent_dev.network.connection import Connection
from agent_dev.network.connection_log import ConnectionEntry
from agent_dev.network.deciding import caller_notes
from agent_dev.network.programs import ProgramFinder


def test_a_program_gets_its_line_before_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    begin, may_begin = socket.socketpair()

    def start_writing(_pid: int, text: str, _network: int) -> int:
        child = os.fork()
        if child == 0:
            may_begin.close()
            begin.recv(1)
            os.write(writer, text.encode())
            os._exit(0)
        return child

    monkeypatch.setattr(process, "start_writing_to_stderr", start_writing)
    monkeypatch.setattr(caller_notes, "_WRITING", 60)
    with socket.socket() as one, begin, may_begin:
        finder = ProgramFinder(one)
        finder.namespace = 1
        wanted = Destination("example.org", ip_address("28.0.1.0"), 443)
        connection = Connection(wanted, one, ConnectionEntry(wanted))
        connection.entry.row["pid"] = 1

        async def tell() -> bytes:
            asyncio.get_running_loop().call_soon(may_begin.send, b"b")  # not before somebody waits
            await caller_notes.CallerNotes(finder).tell_before_end(connection, "example.org:443: no rule allows it")
            return os.read(reader, 100)

        assert asyncio.run(tell()) == b"agent-dev: example.org:443: no rule allows it\n"
    os.close(reader)
    os.close(writer)
