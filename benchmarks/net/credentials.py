"""The broker of credentials: a large response and many small requests, through the gateway's own code, on loopback."""

import asyncio
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable

from agent_dev.config.credentials import Credential
from agent_dev.network.broker.authority import Authority
from agent_dev.network.broker.exchange import CHUNK, ClientConnection, Outside, RequestRow, Streams
from agent_dev.network.broker.keys import BrokeredKey
from benchmarks import measure
from benchmarks.measure import Row, Section
from benchmarks.working_directory import WorkingDirectory

_HOST = "bench.example.org"
_SIZE = 256 << 20
_REQUESTS = 300
_TARGET = 150  # MB/s
_REQUEST = b"GET /%b HTTP/1.1\r\nHost: bench.example.org\r\nx-api-key: stand-in\r\n\r\n"


def run(_ground: WorkingDirectory) -> tuple[Section, ...]:
    """Measure the broker."""
    found = [measure_credentials() for _ in range(max(2, measure.rounds(3)))]
    limit = 1000 * _SIZE / 1e6 / _TARGET
    rows = (
        Row("256 MiB", measure.spread([1000 * _SIZE / 1e6 / one["MB/s"] for one in found]), limit=limit),
        Row("256 MiB, processor time", measure.spread([1000 * _SIZE / 1e6 / one["MB per processor second"] for one in found])),
        Row("a small request", measure.spread([one["request ms"] for one in found])),
    )
    about = f"A response of 256 MiB and small requests through the broker, TLS outside. The goal is {_TARGET} MB/s."
    return (Section("Credentials", about, rows),)


def measure_credentials() -> dict[str, float]:
    """Return MB/s of a response of 256 MiB through TLS, by the clock and by the broker's processor time, and ms per request."""
    authority = Authority((_HOST,))
    server = socket.create_server(("127.0.0.1", 0))
    context, port = authority.context(_HOST), server.getsockname()[1]
    serving = _fork(lambda: _serve(server, context))
    inside, ours = socket.socketpair()
    results = socket.socketpair()

    def ask() -> None:
        ours.close()
        _ask(inside, results[1])

    asking = _fork(ask)
    inside.close()
    before = time.process_time()
    asyncio.run(_broker(ours, port, authority))
    spent = time.process_time() - before
    large, small = map(float, results[0].recv(100).split())
    for pid in (serving, asking):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"MB/s": _SIZE / 1e6 / large, "MB per processor second": _SIZE / 1e6 / spent, "request ms": 1000 * small}


def _fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        work()
        signal.pause()
    return pid


def _serve(server: socket.socket, context: ssl.SSLContext) -> None:
    block = bytes(1 << 18)
    plain, _ = server.accept()
    with context.wrap_socket(plain, server_side=True) as one:
        while head := one.recv(4096):
            size = _SIZE if head.startswith(b"GET /large") else 2
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, b"ok" if size == 2 else b""))
            for _ in range(size // len(block)):
                one.sendall(block)


def _ask(client: socket.socket, results: socket.socket) -> None:
    times = []
    for _ in range(_REQUESTS):
        begin = time.perf_counter()
        client.sendall(_REQUEST % b"small")
        while not client.recv(4096).endswith(b"ok"):
            pass
        times.append(time.perf_counter() - begin)
    begin, left = time.perf_counter(), _SIZE
    client.sendall(_REQUEST % b"large")
    while left > 0:
        left -= len(client.recv(1 << 20))
    results.send(f"{time.perf_counter() - begin} {sorted(times)[len(times) // 2]}".encode())
    client.shutdown(socket.SHUT_RDWR)


async def _broker(client: socket.socket, port: int, authority: Authority) -> None:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    reader, writer = await asyncio.open_connection(sock=client, limit=CHUNK)

    async def connect() -> Streams:
        return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=_HOST, limit=CHUNK)

    def log(_row: RequestRow) -> None:
        return

    key = BrokeredKey(Credential(name="bench", host=_HOST, variable="KEY"), b"real", b"stand-in")
    await ClientConnection((reader, writer), Outside(key, 443, connect, log)).serve()
