"""Forward connections from published ports outside to servers inside, through sockets that the opener creates.

127.0.0.1:OUTSIDE ──▶ gateway ──▶ a socket of the sandbox's network ──▶ 127.0.0.1:INSIDE or [::1]:INSIDE
"""

import asyncio
import os
import socket
from collections import deque
from ipaddress import ip_address

from agent_dev.network.access import Destination
from agent_dev.network.connecting import failure_reason
from agent_dev.network.connection import reset
from agent_dev.network.connection_log import ConnectionEntry, ConnectionLog
from agent_dev.network.passing_fds import receive_fds
from agent_dev.network.published.opener import IPV4, IPV6
from agent_dev.network.relaying.relay import Relay

_MAX_CONNECTIONS = 1024
_AT_ONCE = 64  # connections accepted before other sockets get their turn
_CONNECT, _CLOSE = 10, 2  # seconds
_SERVERS = ((IPV4, "127.0.0.1"), (IPV6, "::1"))


class Opener:
    """The gateway's side of the opener: requests sockets in the sandbox's network namespace."""

    def __init__(self, requests: socket.socket) -> None:
        requests.setblocking(False)
        self._requests = requests
        self._waiting: deque[asyncio.Future[int]] = deque()  # one for each request, in order
        asyncio.get_running_loop().add_reader(requests, self._on_response)

    async def open(self, family: bytes) -> socket.socket:
        """Return an unconnected socket. Raises OSError."""
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._requests.send(family)
        self._waiting.append(waiter)
        return socket.socket(fileno=await waiter)

    def _on_response(self) -> None:
        try:
            data, fds = receive_fds(self._requests)
        except OSError:
            data, fds = b"", []
        if not data:
            asyncio.get_running_loop().remove_reader(self._requests)
        for waiter in [self._waiting.popleft() for _ in range(1 if data else len(self._waiting)) if self._waiting]:
            if waiter.cancelled():
                for fd in fds:
                    os.close(fd)
            elif fds:
                waiter.set_result(fds[0])
            else:
                waiter.set_exception(OSError("no socket can be created in the sandbox"))


class Publisher:
    """Serves published ports."""

    def __init__(self, opener: Opener, log: ConnectionLog) -> None:
        self._opener, self._log = opener, log
        self.tasks: set[asyncio.Task[None]] = set()
        self.follower: asyncio.Task[None] | None = None  # with `auto`

    async def close(self) -> None:
        """End every connection, so that it is logged."""
        tasks = [*self.tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE)

    def publish(self, listener: socket.socket, inside: int) -> None:
        """Start to serve a listening socket for a port inside."""
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(listener, self._on_connections, listener, inside)

    def withdraw(self, listener: socket.socket) -> None:
        """Stop serving a listening socket, and close it; its connections continue."""
        asyncio.get_running_loop().remove_reader(listener)
        listener.close()

    def _on_connections(self, listener: socket.socket, inside: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                client, _ = listener.accept()
            except OSError:
                return
            client.setblocking(False)
            if len(self.tasks) >= _MAX_CONNECTIONS:
                reset(client)
                continue
            task = asyncio.get_running_loop().create_task(self._carry(client, inside, listener.getsockname()[1]))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _carry(self, client: socket.socket, inside: int, outside: int) -> None:
        entry = ConnectionEntry(Destination("localhost", ip_address("127.0.0.1"), inside))
        entry.row["published"] = outside
        relay, problem = Relay(None), {}
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with await self._connect(inside) as server:
                await relay.run(client, server, b"", lambda _: b"")
        except OSError as error:
            problem = {"problem": failure_reason(error)}
            reset(client)
        finally:
            client.close()
            self._log.add(entry.finish(**problem, **relay.counts))

    async def _connect(self, port: int) -> socket.socket:
        """Return a connection to a server inside. Raises OSError."""
        failure = OSError("no server")
        for family, address in _SERVERS:
            made = await self._opener.open(family)
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                async with asyncio.timeout(_CONNECT):
                    await asyncio.get_running_loop().sock_connect(made, (address, port))
            except OSError as error:
                made.close()
                failure = failure if failure.errno else error
            else:
                return made
        raise failure
