"""The relay between two real TCP connections."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from agent_dev.network.inspection import Inspection
from agent_dev.network.relaying import relay as relay_module
from agent_dev.network.relaying.pipes import PipePool
from agent_dev.network.relaying.relay import Relay

LARGE = 5 << 20  # bytes: more than the socket buffers hold, and enough for a pipe
SMALL_BUFFER = 1 << 14


def pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        one.settimeout(20)
        return one, server.accept()[0]


@contextmanager
def relayed(inspection: Inspection | None = None) -> Iterator[tuple[socket.socket, socket.socket, Relay]]:
    """Yield the program's end and the server's end of two relayed connections; at the end, wait until the relay has ended."""
    (program, client), (server, outside) = pair(), pair()
    server.settimeout(20)
    for one in (client, outside):
        one.setblocking(False)
    relay = Relay(inspection)

    async def run() -> None:
        with client, outside:
            await asyncio.wait_for(relay.run(client, outside, b"", lambda why: why.encode()), 20)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        with program, server:
            yield program, server, relay
    finally:
        thread.join(20)
    assert not thread.is_alive()
    assert relay_module._waiting == 0, "nothing is counted as waiting after the end"


def read_all(one: socket.socket) -> bytes:
    """Return everything up to the end of the stream."""
    return b"".join(iter(lambda: one.recv(1 << 16), b""))


def send_and_end(one: socket.socket, data: bytes) -> threading.Thread:
    """Send data and end the stream, in a thread."""

    def work() -> None:
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def opened() -> Inspection:
    """Return an inspection of a protocol that is not inspected."""
    made = Inspection("api.example.org", 22)
    assert made.feed(b"SSH-2.0-x\r\n")
    return made


@pytest.mark.parametrize("inspection", [lambda: None, opened, lambda: Inspection("api.example.org", 22)])
def test_large_amounts_arrive_whole_in_both_directions(inspection: Callable[[], Inspection | None]) -> None:
    up, down = b"SSH-" + os.urandom(LARGE), os.urandom(LARGE + 1)
    with relayed(inspection()) as (program, server, relay):
        threads = [send_and_end(program, up), send_and_end(server, down)]
        found: list[bytes] = []
        reading = threading.Thread(target=lambda: found.append(read_all(server)))
        reading.start()
        assert read_all(program) == down
        for thread in (*threads, reading):
            thread.join(20)
        assert found == [up]
    assert relay.counts == {"sent": len(up), "received": len(down)}


def test_a_side_that_has_ended_still_receives() -> None:
    with relayed() as (program, server, _):
        program.sendall(b"question")
        program.shutdown(socket.SHUT_WR)
        assert read_all(server) == b"question"
        thread = send_and_end(server, bytes(LARGE))
        assert len(read_all(program)) == LARGE
        thread.join(20)


def test_a_slow_program_gets_all_that_a_closed_server_sent() -> None:
    with relayed() as (program, server, _):
        data = os.urandom(1 << 19)
        server.sendall(data)
        server.close()
        program.shutdown(socket.SHUT_WR)
        assert read_all(program) == data


def test_a_server_that_refuses_the_rest_is_still_heard() -> None:
    with relayed() as (program, server, _):
        server.sendall(b"413")
        server.close()  # with a reset, since it has read nothing
        with pytest.raises(OSError):  # noqa: PT011  (a reset or a broken pipe)
            program.sendall(bytes(8 * LARGE))
        assert program.recv(100) == b"413"


def test_a_program_that_has_gone_ends_the_connection_of_a_busy_server() -> None:
    with relayed() as (program, server, _):
        server.sendall(bytes(1 << 19))
        program.close()
        with pytest.raises(OSError):  # noqa: PT011  (a reset or a broken pipe)
            server.sendall(bytes(8 * LARGE))


def test_a_server_that_reads_nothing_stops_the_program() -> None:
    with relayed() as (program, server, relay):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        program.settimeout(1)
        with pytest.raises(TimeoutError):
            program.sendall(bytes(8 * LARGE))
        program.close()
        server.settimeout(20)
        assert len(read_all(server)) < 8 * LARGE
    assert relay.counts["sent"] < 8 * LARGE


@pytest.mark.parametrize("pool", ["empty", "limited"])
def test_without_a_free_pipe_bytes_are_copied(monkeypatch: pytest.MonkeyPatch, pool: str) -> None:
    def take(_: PipePool) -> None:
        return None

    if pool == "empty":
        monkeypatch.setattr(PipePool, "take", take)
    else:
        monkeypatch.setattr(relay_module, "_MAX_WAITING", -1)
        monkeypatch.setattr(relay_module, "_LARGE", 1 << 40)
    with relayed() as (program, server, _):
        data = os.urandom(LARGE)
        thread = send_and_end(server, data)
        program.shutdown(socket.SHUT_WR)
        assert read_all(program) == data
        thread.join(20)


def test_pipes_are_few_and_an_empty_one_is_used_again() -> None:
    pool = PipePool()
    taken = [pool.take() for _ in range(9)]
    assert [one is not None for one in taken] == [True] * 8 + [False]
    source, target = pair()
    full, empty, *others = [one for one in taken if one]
    with source, target:
        source.sendall(b"left behind")
        assert full.fill(target) > 0
    for one in (full, empty, *others):
        pool.give_back(one)
    again = [pool.take() for _ in range(9)]
    assert full not in again, "what was left in it must not reach another connection"
    assert empty in again
    assert [one is not None for one in again] == [True] * 8 + [False]
    for one in filter(None, again):
        one.close()
