"""The gateway of one sandbox: every TCP connection and DNS query that leaves it ends here, and allowed ones are carried on.

    sandbox: connect(any address, any port) ──nf_tables──▶ a socket made inside, held here
      stand-in address → name → rules → resolve → check every address → connect to exactly these
      first bytes: TLS and each HTTP request must name the same host

It runs as a process next to the launcher. Without it nothing is reachable: the sandbox has no other way out.
"""

import asyncio
import errno
import ipaddress
import os
import resource
import socket
import struct
from collections.abc import Coroutine
from typing import Any

from agent_dev.config.network_rules import AddressRule, LocalRule, NameRule, RuleSet
from agent_dev.network import access, dns, refusal
from agent_dev.network.access import Address, Denied, Destination
from agent_dev.network.connection_log import ALLOW, DENY, ConnectionLog, Entry
from agent_dev.network.inspection import Inspection
from agent_dev.network.names import NameTable
from agent_dev.network.packet_rules import DNS_PORT, GATE4, GATE6
from agent_dev.network.programs import ProgramFinder
from agent_dev.network.relay import Relay

_MAX_CONNECTIONS = 4096
_SPARE_FILES = 64
_AT_ONCE = 64  # connections or queries handled before others get their turn
_ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST, IP6T_SO_ORIGINAL_DST
_IDLE, _HELLO, _RESOLVE, _CONNECT, _DNS_STREAM, _REFUSE, _CLOSE = 300, 10, 10, 10, 30, 0.5, 2  # seconds
_MAX_LOOKUPS = 16  # connections at once for which the program is looked up
_CHUNK = 65536


class Gateway:
    """Serves one sandbox through sockets that were made inside it."""

    def __init__(self, rules: RuleSet, sockets: list[socket.socket], log: ConnectionLog, finder: ProgramFinder) -> None:
        self._rules, self._sockets, self._log, self._finder = rules, sockets, log, finder
        self._local = {rule.inside: rule for rule in rules.allow if isinstance(rule, LocalRule)}
        self._names = NameTable()
        self._tasks: set[asyncio.Task[None]] = set()
        self._max_connections = min(_MAX_CONNECTIONS, (_raise_file_limit() - _SPARE_FILES) // 2)

    def start(self) -> None:
        """Begin to serve, in a running event loop."""
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            one.setblocking(False)
            is_tcp = one.type == socket.SOCK_STREAM
            loop.add_reader(one, self._on_connections if is_tcp else self._on_queries, one)

    async def close(self) -> None:
        """End every connection, so that it is logged."""
        for one in self._sockets:
            asyncio.get_running_loop().remove_reader(one)
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE)

    def _on_queries(self, server: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                query, client = server.recvfrom(_CHUNK)
                reply = dns.answer_query(query, self._names)
                if reply:
                    server.sendto(reply, client)
            except OSError:
                return  # no more queries, or the client is gone

    def _on_connections(self, server: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                client, _ = server.accept()
            except OSError:
                return
            client.setblocking(False)
            if len(self._tasks) >= self._max_connections:
                _reset(client)
                continue
            task = asyncio.get_running_loop().create_task(self._serve(server, client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, server: socket.socket, client: socket.socket) -> None:
        try:
            address, port = server.getsockname()[:2]
            if address not in (GATE4, GATE6):
                await self._carry_local(self._local[port], Destination("localhost", ipaddress.ip_address(address), port), client)
                return
            wanted = self._destination(client)
            if wanted.port == DNS_PORT:
                await self._answer_stream(client)
            else:
                await self._carry(wanted, client)
        except (OSError, asyncio.IncompleteReadError):
            _reset(client)  # the client or the server is gone, or a time limit was reached
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
                    reply = dns.answer_query(await reader.readexactly(size), self._names)
                    if reply is None:
                        return
                    writer.write(struct.pack(">H", len(reply)) + reply)
                    await writer.drain()
        finally:
            writer.close()

    async def _carry(self, wanted: Destination, client: socket.socket) -> None:
        inspection = Inspection(wanted.name, wanted.port) if wanted.name else None
        first, received = b"", bytearray()
        entry = self._entry(wanted, client)
        try:
            rule = access.decide(self._rules, wanted)
            entry.row["rule"] = rule.text
            if inspection and inspection.client_speaks_first:  # an idle client costs no connection outside
                first = await _read_first(client, inspection, received)
            server = await self._connect(wanted, rule)
        except Denied as error:
            self._log.add(entry.finish(decision=DENY, why=str(error)))
            await _refuse(client, bytes(received), _text(wanted, str(error)))
            return
        except OSError as error:
            self._log.add(entry.finish(decision=ALLOW, problem=_reason(error)))
            raise
        relay = Relay(inspection)
        with server:
            await self._relay(
                relay, entry, relay.run(client, server, first, lambda why: _late_refusal(inspection, _text(wanted, why)))
            )

    async def _carry_local(self, rule: LocalRule, wanted: Destination, client: socket.socket) -> None:
        entry = self._entry(wanted, client)
        entry.row["rule"] = rule.text
        try:
            server = await _connect_first((("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)), rule.port)
        except OSError as error:
            self._log.add(entry.finish(decision=ALLOW, problem=_reason(error)))
            raise
        relay = Relay(None)
        with server:
            await self._relay(relay, entry, relay.run(client, server, b"", str.encode))

    async def _relay(self, relay: Relay, entry: Entry, running: Coroutine[Any, Any, None]) -> None:
        """Carry a connection to its end, and log it."""
        try:
            await running
        finally:
            denied = {"why": str(relay.denied)} if relay.denied else {}
            self._log.add(entry.finish(decision=DENY if denied else ALLOW, **denied, **relay.counts))

    def _entry(self, wanted: Destination, client: socket.socket) -> Entry:
        """Return the log entry of a connection, with its program unless there are many at once."""
        entry = Entry(wanted)
        if len(self._tasks) <= _MAX_LOOKUPS:
            pid, program = self._finder.find(client, str(wanted.address), wanted.port)
            entry.row |= {"pid": pid, "program": program} if pid else {}
        return entry

    async def _connect(self, wanted: Destination, rule: NameRule | AddressRule) -> socket.socket:
        """Connect to a destination: to exactly the addresses that were checked. Raises Denied, OSError."""
        found: tuple[Address, ...] = (wanted.address,)
        if isinstance(rule, NameRule):
            found = await _resolve(wanted)
            access.check_addresses(self._rules, rule, wanted, found)
        places = tuple((str(one), socket.AF_INET if one.version == 4 else socket.AF_INET6) for one in found)
        return await _connect_first(places, wanted.port)


async def _resolve(wanted: Destination) -> tuple[Address, ...]:
    """Return a name's addresses. Raises OSError."""
    async with asyncio.timeout(_RESOLVE):
        try:
            found = await asyncio.get_running_loop().getaddrinfo(wanted.name, wanted.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise OSError(f"the name is not resolved: {error}") from None
    return tuple(dict.fromkeys(ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in found))


async def _connect_first(places: tuple[tuple[str, socket.AddressFamily], ...], port: int) -> socket.socket:
    """Return a connection to the first of some addresses that accepts one. Raises OSError."""
    failure = OSError(errno.EHOSTUNREACH, "no address")
    for address, family in places:
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            async with asyncio.timeout(_CONNECT):
                await asyncio.get_running_loop().sock_connect(made, (address, port))
        except OSError as error:  # TimeoutError, too
            made.close()
            failure = error
        else:
            return made
    raise failure


async def _read_first(client: socket.socket, inspection: Inspection, received: bytearray) -> bytes:
    """Return a client's first bytes that may be forwarded; all that came is added to `received`. Raises Denied, OSError."""
    loop, limit = asyncio.get_running_loop(), _IDLE
    while True:
        async with asyncio.timeout(limit):
            data = await loop.sock_recv(client, _CHUNK)
        if not data:
            raise OSError(errno.ECONNRESET, "the client sent nothing complete")
        received += data[: refusal.FIRST_BYTES]
        ready = inspection.feed(data)
        if ready:
            return ready
        limit = _HELLO


async def _refuse(client: socket.socket, first: bytes, text: str) -> None:
    """Refuse a connection in words, if its first bytes tell the protocol, and end it."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_REFUSE):
            words = refusal.refusal_bytes(first or await loop.sock_recv(client, _CHUNK), text)
            if words:
                await loop.sock_sendall(client, words)
                client.shutdown(socket.SHUT_WR)
                while await loop.sock_recv(client, _CHUNK):  # a reset now could overtake the words
                    pass
                return
    except OSError:
        pass  # the client says nothing, or is gone
    _reset(client)


def _reason(error: OSError) -> str:
    """Return why a server was not reached; asyncio replaces the system's words."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error) or "timed out"


def _late_refusal(inspection: Inspection | None, text: str) -> bytes:
    return refusal.http_refusal(text) if inspection and inspection.protocol == "http" else b""


def _text(wanted: Destination, reason: str) -> str:
    return f"agent-dev: {wanted}: {reason}"


def _reset(client: socket.socket) -> None:
    """Close a connection with a reset instead of an orderly end."""
    if client.fileno() >= 0:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()


def _raise_file_limit() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4 * _MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
