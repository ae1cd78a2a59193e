"""The attach server, a process of the launcher: it keeps the pty of a session that can be detached.

A client gets the pty itself and relays between it and the user's terminal (`client`), as the relay of any other session does.
Without a client the server reads the output itself, so that the agent can continue, and keeps its end (`history`).
"""

import _socket
import os
import select
import time

from agent_dev.linux import process, signals
from agent_dev.sandbox.attaching import protocol
from agent_dev.sandbox.attaching.history import History
from agent_dev.sandbox.attaching.protocol import Greeting
from agent_dev.sandbox.terminal.foreground import END, SUSPEND
from agent_dev.value import Value

# Commands of the launcher, besides those of a relay: the agent is running; who is the client; the result follows.
CONFIRM, CLIENT, RESULT = b"c", b"p", b"="
_CHUNK = 1 << 16
_PATIENCE = 1.0  # seconds for a client's first message, and for the last output
_TAKEN_PATIENCE = 2000  # ms in which a client must leave to another one; then it is killed
_NO_CLIENT = -1


class ServerDescriptors(Value):
    """Descriptors: the pty's master, the pipes from and to the launcher, the listener, the first client, the history."""

    inner: int
    commands: int
    replies: int
    listener: int
    client: int
    history: int


def run(ends: ServerDescriptors, greeting: Greeting) -> None:
    """Serve until the launcher ends. Never returns."""
    for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM, signals.TSTP, signals.PIPE):
        signals.ignore(number)
    launcher = os.pidfd_open(greeting.launcher)
    if os.getppid() != greeting.launcher:
        os._exit(1)
    process.close_all_but({launcher, *(fd for fd in ends.as_dict().values() if fd >= 0)})
    os.set_blocking(ends.inner, False)
    server = AttachServer(ends, greeting, launcher)
    wakeup, wakeup_w = os.pipe()
    signals.set_wakeup_fd(wakeup_w)
    signals.catch(signals.URG, lambda *_: None)  # the bell (session/alerts)
    try:
        server.serve(wakeup)
    finally:
        os._exit(0)


class AttachServer:
    """Serves one client at a time, and the launcher's commands."""

    def __init__(self, ends: ServerDescriptors, greeting: Greeting, launcher: int) -> None:
        self._ends, self._greeting, self._launcher = ends, greeting, launcher
        self._history = History(ends.history)
        self._listener = _socket.socket(fileno=ends.listener)
        self._client: _socket.socket | None = None
        self._client_pid = _NO_CLIENT  # pidfd
        self._is_over = False  # no process has the sandbox's terminal open any more
        self._ends_at = 0.0  # when the launcher's request to end is answered, without a client
        self._must_reply = False
        self._poll = select.poll()
        for fd in (ends.commands, launcher, ends.listener):
            self._poll.register(fd, select.POLLIN)
        if ends.client >= 0:
            self._greet(_socket.socket(fileno=ends.client))
        self._watch_output()

    def serve(self, wakeup: int) -> None:
        """Serve until the launcher has sent its result, or is gone."""
        self._poll.register(wakeup, select.POLLIN)
        while True:
            ready = dict(self._poll.poll(100 if self._must_reply else None))
            if wakeup in ready:
                os.read(wakeup, 64)
                self._send(protocol.BELL)
            if self._ends.inner in ready:
                self._read_output()
            if self._client is not None and self._client.fileno() in ready:
                self._read_client()
            if self._ends.commands in ready and self._run_command():
                return
            if self._launcher in ready:
                return
            if self._ends.listener in ready:
                self._accept()
            self._reply_at_end()

    # the pty

    def _watch_output(self) -> None:
        """Read the output only while no client does."""
        if self._client is None and not self._is_over:
            self._poll.register(self._ends.inner, select.POLLIN)
            return
        try:
            self._poll.unregister(self._ends.inner)
        except KeyError:
            return  # not registered

    def _read_output(self) -> None:
        try:
            self._history.add(os.read(self._ends.inner, _CHUNK))
        except BlockingIOError:
            return
        except OSError:  # EIO: no process has it open
            self._is_over = True
            self._watch_output()

    # clients

    def _accept(self) -> None:
        try:
            connection = _socket.socket(fileno=self._listener._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001
        except OSError:
            return
        try:
            connection.settimeout(_PATIENCE)
            if protocol.peer(connection)[1] == os.getuid():
                self._answer(connection, connection.recv(protocol.MAX_MESSAGE))
        except OSError:
            pass  # it is gone, or sent nothing
        finally:
            if connection is not self._client:
                connection.close()

    def _answer(self, connection: _socket.socket, request: bytes) -> None:
        if request == protocol.ASK or (request == protocol.ATTACH and self._client is not None):
            connection.send(protocol.DETACHED if self._client is None else protocol.ATTACHED)
        elif request in (protocol.ATTACH, protocol.TAKE_OVER) and not self._ends_at:
            self._remove_client()
            self._greet(connection)

    def _greet(self, connection: _socket.socket) -> None:
        self._client = connection
        connection.settimeout(_PATIENCE)
        self._watch_output()
        try:
            self._client_pid = os.pidfd_open(protocol.peer(connection)[0])
            protocol.send_fds(connection, self._greeting.encode(), (self._ends.inner, self._ends.history))
            self._poll.register(connection.fileno(), select.POLLIN)
        except OSError:
            self._forget_client()  # it is gone

    def _remove_client(self) -> None:
        """Tell the present client to leave, and wait until it has; kill it if it does not."""
        if self._client is None:
            return
        poll = select.poll()
        poll.register(self._client.fileno(), 0)
        if not self._send(protocol.TAKEN) or not poll.poll(_TAKEN_PATIENCE):
            signals.pidfd_send_signal(self._client_pid, signals.KILL)
            poll.poll(_TAKEN_PATIENCE)
        self._forget_client()

    def _forget_client(self) -> None:
        if self._client is not None:
            try:
                self._poll.unregister(self._client.fileno())
            except KeyError:
                pass  # it left before it was greeted
            self._client.close()
        if self._client_pid >= 0:
            os.close(self._client_pid)
        self._client, self._client_pid = None, _NO_CLIENT
        self._watch_output()

    def _read_client(self) -> None:
        """Read a client's message; a client that has left sends no more."""
        try:
            message = self._client.recv(protocol.MAX_MESSAGE) if self._client else b""
        except OSError:
            message = b""
        if not message:
            self._forget_client()
        elif message == protocol.OUTPUT_DONE and self._must_reply:
            self._reply()

    def _send(self, message: bytes) -> bool:
        """Send the client a message; return whether it was sent."""
        try:
            return self._client is not None and self._client.send(message) > 0
        except OSError:
            return False

    # the launcher's commands

    def _run_command(self) -> bool:
        """Run a command; return whether it was the last."""
        command = os.read(self._ends.commands, 1)
        if command == RESULT:
            size = int.from_bytes(_read_exactly(self._ends.commands, 4), "big")
            self._send(protocol.RESULT + _read_exactly(self._ends.commands, size))
        if command in (RESULT, b""):
            return True
        if command == END:
            self._send(protocol.END)
            self._ends_at, self._must_reply = time.monotonic() + _PATIENCE, True
            return False  # replied to when the output is read
        if command == SUSPEND:
            self._send(protocol.SUSPEND)
        elif command == CONFIRM:
            self._send(protocol.RUNNING)
        self._reply()
        if command == CLIENT:
            pid = protocol.peer(self._client)[0] if self._client is not None else 0
            os.write(self._ends.replies, pid.to_bytes(4, "big"))
        return False

    def _reply_at_end(self) -> None:
        """Reply to END once the output is read: by the client, which reports it, or else by us.

        We do not wait for a slow or stopped client: it keeps the pty, and can read the rest.
        """
        is_read = self._is_over and self._client is None
        if self._must_reply and (is_read or time.monotonic() > self._ends_at):
            self._reply()

    def _reply(self) -> None:
        self._must_reply = False
        try:
            os.write(self._ends.replies, b".")
        except BrokenPipeError:
            return


def _read_exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := os.read(fd, size - len(data))):
        data += piece
    return data
