"""Copy bytes between a client in the sandbox and a server, with back-pressure and half-close.

The sockets are read and written directly, because asyncio's transports copy each piece twice more. Once nothing is inspected any
more, large amounts go through a pipe of the kernel, which copies nothing.
"""

import asyncio
import socket
from collections.abc import Callable

from agent_dev.network.access import Denied
from agent_dev.network.inspection import Inspection
from agent_dev.network.relaying.pipes import Pipe, PipePool

_BUFFER = bytearray(1 << 18)  # shared: what a receiver does not take at once is copied before the next read
_VIEW = memoryview(_BUFFER)
_SMALL = 1 << 14  # bytes read at once while many receivers are slow
_MAX_WAITING = 16 << 20  # bytes that wait for slow receivers before less is read at once
_PIECES = 4  # copied before other connections get their turn
_RESPONSE_START = 32  # bytes of a response that an inspection reads
_LARGE = 1 << 20  # bytes after which a direction goes through a pipe
_pipes = PipePool()
_waiting = 0  # bytes that wait for slow receivers, of all connections


class _RelayDirection:
    """Copies from one socket to another; while the other takes nothing, nothing is read."""

    def __init__(self, relay: "Relay", source: socket.socket, target: socket.socket) -> None:
        self._relay, self._source, self._target = relay, source, target
        self._loop = asyncio.get_running_loop()
        self._waiting = memoryview(b"")  # for the target
        self._pipe: Pipe | None = None  # while a large amount goes through it
        self._reads = self._writes = False  # whether the loop watches source or target
        self.count = 0
        self.has_ended = False  # the source sends nothing more, or is no longer read

    def copy(self) -> None:
        """Copy until the source has nothing or the target takes nothing, at most some pieces: then it is another's turn."""
        for _ in range(_PIECES):
            if self._is_waiting and not self._send_waiting():
                return
            if self.has_ended or not self._copy_piece():
                return
        if not self.has_ended:
            self._watch(is_reading=True)

    def send(self, data: bytes | memoryview) -> None:
        """Send the target some bytes, at once or when it takes them."""
        sent = 0
        if not self._waiting:
            try:
                sent = self._target.send(data)
            except BlockingIOError:
                pass
            except OSError:
                self._relay.lose(self._target)
                return
        if sent < len(data):
            self._wait_with(memoryview(bytes(self._waiting) + bytes(data[sent:])))
            self._watch(is_reading=False)

    def stop_reading(self) -> None:
        """Read nothing more; send what waits, then end the target's stream."""
        self.has_ended = True
        if self._is_waiting:
            self._watch(is_reading=False)
        else:
            self._end_stream()

    def drop(self) -> None:
        """Neither read nor send anything more."""
        self.has_ended = True
        self._wait_with(memoryview(b""))
        self._unwatch()
        self._return_pipe()

    @property
    def is_done(self) -> bool:
        """True if nothing more is read or sent."""
        return self.has_ended and not self._is_waiting

    @property
    def _is_waiting(self) -> bool:
        return bool(self._waiting or (self._pipe and self._pipe.size))

    def _send_waiting(self) -> bool:
        """Send what waits; return whether the target took all."""
        try:
            if self._pipe and self._pipe.size:
                self._pipe.drain(self._target)
            else:
                self._wait_with(self._waiting[self._target.send(self._waiting) :])
        except BlockingIOError:
            pass
        except OSError:
            self._relay.lose(self._target)
            return False
        if self._is_waiting:
            self._watch(is_reading=False)
            return False
        if self.has_ended:
            self._end_stream()
        return True

    def _copy_piece(self) -> bool:
        """Read and forward once; return whether there may be more."""
        if self._pipe is None and self.count >= _LARGE and self._relay.is_open:
            self._pipe = _pipes.take()
        try:
            if self._pipe:
                size = self._pipe.fill(self._source)
            else:
                size = self._source.recv_into(_BUFFER, _SMALL if _waiting > _MAX_WAITING else 0)
        except BlockingIOError:
            self._return_pipe()
            self._watch(is_reading=True)
            return False
        except OSError:
            self._relay.lose(self._source)
            self.stop_reading()
            return False
        if not size:
            self.stop_reading()
            return False
        self.count += size
        if self._pipe:
            return self._send_waiting()
        self._relay.forward(self, _VIEW[:size])
        return not self._waiting

    def _watch(self, *, is_reading: bool) -> None:
        """Copy as soon as the source has something, or else as soon as the target takes something."""
        if is_reading and not self._reads:
            self._unwatch()
            self._loop.add_reader(self._source, self.copy)
            self._reads = True
        elif not is_reading and not self._writes:
            self._unwatch()
            self._loop.add_writer(self._target, self.copy)
            self._writes = True

    def _unwatch(self) -> None:
        if self._reads:
            self._loop.remove_reader(self._source)
        if self._writes:
            self._loop.remove_writer(self._target)
        self._reads = self._writes = False

    def _return_pipe(self) -> None:
        if self._pipe:
            _pipes.give_back(self._pipe)
            self._pipe = None

    def _end_stream(self) -> None:
        self._unwatch()
        self._return_pipe()
        try:
            self._target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it is gone
        self._relay.finish_if_done()

    def _wait_with(self, data: memoryview) -> None:
        global _waiting  # noqa: PLW0603  (a limit for the whole process)
        _waiting += len(data) - len(self._waiting)
        self._waiting = data


class Relay:
    """The two connections of one client; what the client sends is inspected."""

    def __init__(self, inspection: Inspection | None) -> None:
        self._inspection = inspection
        self.counts: dict[str, int] = {"sent": 0, "received": 0}  # bytes from the client, and from the server
        self.denied: Denied | None = None  # why inspection ended it

    async def run(self, client: socket.socket, server: socket.socket, first: bytes, refuse: Callable[[str], bytes]) -> None:
        """Copy bytes until both sides have ended; `first` has already been read and inspected."""
        self._refuse, self._client = refuse, client
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._up, self._down = _RelayDirection(self, client, server), _RelayDirection(self, server, client)
        try:
            if first:
                self._up.send(first)
            self._up.copy()
            self._down.copy()
            await self._end
        finally:
            self.counts = {"sent": self._up.count, "received": self._down.count}
            self._up.drop()
            self._down.drop()

    @property
    def is_open(self) -> bool:
        """True if everything that follows is forwarded unchanged."""
        return self._inspection is None or self._inspection.is_open

    def lose(self, lost: socket.socket) -> None:
        """Send a side nothing more, because its connection is lost; the client still gets what the server has sent."""
        self._up.drop()
        if lost is self._client:
            self._down.drop()
        self.finish_if_done()

    def finish_if_done(self) -> None:
        """End `run` if nothing more is copied."""
        if self._up.is_done and self._down.is_done and not self._end.done():
            self._end.set_result(None)

    def forward(self, direction: _RelayDirection, data: memoryview) -> None:
        """Forward what was read, if it passes the inspection; otherwise end both connections."""
        inspection = self._inspection
        if inspection is None or inspection.is_open:
            direction.send(data)
            return
        try:
            if direction is self._up:
                ready = inspection.feed(bytes(data))
            else:
                direction.send(data)
                ready = inspection.on_response(bytes(data[:_RESPONSE_START]))
        except Denied as error:
            self._deny(error)
            return
        if ready and not self._up.has_ended:
            self._up.send(ready)

    def _deny(self, error: Denied) -> None:
        self.denied = error
        self._up.drop()
        words = self._refuse(str(error))
        if words:
            self._down.send(words)
        self._down.stop_reading()
