"""The gateway of one sandbox: accepts every TCP connection and DNS query that leaves it, and forwards those that are allowed.

    sandbox: connect(any address, any port) ──nf_tables──▶ a socket made inside, held here
      stand-in address → name → rules → resolve → check every address → connect to exactly these
      first bytes: TLS and each HTTP request must name the same host

It runs as a process next to the launcher. Without it, nothing is reachable: the sandbox has no other connection to the outside.
"""

import asyncio
import ipaddress
import resource
import socket
import struct
import time

from agent_dev.config.network_rules import LocalRule
from agent_dev.network import access, dns
from agent_dev.network.access import Destination
from agent_dev.network.connection import CHUNK, Connection, reset
from agent_dev.network.connection_log import ConnectionEntry
from agent_dev.network.forwarding import Forwarder
from agent_dev.network.names import NameTable
from agent_dev.network.packet_rules import DNS_PORT, GATE4, GATE6
from agent_dev.network.programs import ProgramFinder
from agent_dev.network.rate import RateLimit, TimeBudget

_MAX_CONNECTIONS = 4096
_SPARE_FILES = 64
_AT_ONCE = 64  # connections or queries handled before other sockets get their turn
_ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST, IP6T_SO_ORIGINAL_DST
_DNS_STREAM, _CLOSE = 30, 2  # seconds
_LOOKUPS = 0.1, 0.05  # seconds for lookups of programs, then a share of the time: one with many open files takes 7 ms
_QUERIES = 4000, 2000  # DNS queries: as above


class Gateway:
    """Serves one sandbox through sockets that were made inside it."""

    def __init__(self, sockets: list[socket.socket], forwarder: Forwarder, finder: ProgramFinder) -> None:
        self._sockets, self._forwarder, self._finder = sockets, forwarder, finder
        self._local = {rule.inside: rule for rule in forwarder.decider.rules.allow if isinstance(rule, LocalRule)}
        self._names = NameTable()
        self._lookups, self._queries = TimeBudget(*_LOOKUPS), RateLimit(*_QUERIES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._max_connections = min(_MAX_CONNECTIONS, (_raise_file_limit() - _SPARE_FILES) // 2)

    def start(self) -> None:
        """Start to serve, in a running event loop."""
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            one.setblocking(False)
            is_tcp = one.type == socket.SOCK_STREAM
            loop.add_reader(one, self._accept_waiting if is_tcp else self._on_queries, one)

    async def close(self) -> None:
        """End every connection, also those that nobody has accepted yet, so that each is logged."""
        for one in self._sockets:
            asyncio.get_running_loop().remove_reader(one)
            if one.type == socket.SOCK_STREAM:
                self._accept_waiting(one, _MAX_CONNECTIONS)
        await asyncio.sleep(0)  # a task that is cancelled before it has started would log nothing
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE)

    def _on_queries(self, server: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                query, client = server.recvfrom(CHUNK)
                reply = self._answer(query)
                if reply:
                    server.sendto(reply, client)
            except OSError:
                return  # no more queries, or the client is gone

    def _answer(self, query: bytes) -> bytes | None:
        """Return the answer to a DNS query; None if it gets none, for example beyond the rate limit."""
        return dns.answer_query(query, self._names) if self._queries.take() else None

    def _accept_waiting(self, server: socket.socket, at_most: int = _AT_ONCE) -> None:
        for _ in range(at_most):
            if not self._accept(server):
                return

    def _accept(self, server: socket.socket) -> bool:
        """Begin to serve the next connection; return False if there is none."""
        try:
            client, _ = server.accept()
        except OSError:
            return False
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self._tasks) >= self._max_connections:
            reset(client)
            return True
        task = asyncio.get_running_loop().create_task(self._serve(server, client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _serve(self, server: socket.socket, client: socket.socket) -> None:
        try:
            address, port = server.getsockname()[:2]
            if address not in (GATE4, GATE6):
                local = Destination("localhost", ipaddress.ip_address(address), port)
                await self._forwarder.forward_local(self._connection(local, client), self._local[port])
                return
            wanted = self._destination(client)
            if wanted.port == DNS_PORT:
                await self._answer_stream(client)
            else:
                await self._forwarder.forward(self._connection(wanted, client))
        except (OSError, asyncio.IncompleteReadError):
            reset(client)  # the client or the server is gone, or a timeout expired
        finally:
            client.close()

    def _destination(self, client: socket.socket) -> Destination:
        is_four = client.family == socket.AF_INET
        level = socket.SOL_IP if is_four else socket.IPPROTO_IPV6
        data = client.getsockopt(level, _ORIGINAL_DESTINATION, 28)
        address = ipaddress.ip_address(data[4:8] if is_four else data[8:24])
        return access.destination(address, int.from_bytes(data[2:4], "big"), self._names)

    async def _answer_stream(self, client: socket.socket) -> None:
        """Answer DNS queries over TCP."""
        reader, writer = await asyncio.open_connection(sock=client)
        try:
            async with asyncio.timeout(_DNS_STREAM):
                while True:
                    (size,) = struct.unpack(">H", await reader.readexactly(2))
                    reply = self._answer(await reader.readexactly(size))
                    if reply is None:
                        return
                    writer.write(struct.pack(">H", len(reply)) + reply)
                    await writer.drain()
        finally:
            writer.close()

    def _connection(self, wanted: Destination, client: socket.socket) -> Connection:
        """Return a connection, with its program unless there are too many connections to look it up."""
        entry = ConnectionEntry(wanted)
        if self._lookups.is_left():
            begin = time.thread_time()
            pid, program = self._finder.find(client, str(wanted.address), wanted.port)
            self._lookups.spend(time.thread_time() - begin)
            entry.row |= {"pid": pid, "program": program} if pid else {}
        return Connection(wanted, client, entry)


def _raise_file_limit() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 4 * _MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit
