"""Attach the user's terminal to a session: relay between it and the session's pty until the user detaches or the agent ends."""

import _socket
import os
import select
import termios
import time

from agent_dev.config.detach_key import TerminalKey
from agent_dev.errors import CannotStart
from agent_dev.linux import signals
from agent_dev.sandbox.attaching import protocol
from agent_dev.sandbox.attaching.history import History
from agent_dev.sandbox.attaching.key_input import DetachKey
from agent_dev.sandbox.attaching.protocol import Greeting
from agent_dev.sandbox.attaching.replay import make_replay
from agent_dev.sandbox.terminal import relay
from agent_dev.sandbox.terminal.pty import Terminal
from agent_dev.sandbox.terminal.reset import SAVE_TITLE
from agent_dev.value import Value

DETACHED, TAKEN, ENDED, LOST = "detached", "taken", "ended", "lost"  # ends of an attachment; LOST: the launcher was killed
_DETACH = b"d"  # a command to the relay
_REDRAW_DELAY = 0.05  # seconds for which a program inside sees another size, so that it redraws
_FORWARDED = (signals.INT, signals.QUIT, signals.TERM, signals.TSTP)


class ServerConnection(Value):
    """A connection to an attach server: its socket, the greeting, descriptors of pty and history."""

    socket: _socket.socket
    greeting: Greeting
    inner: int
    history: int


class Attachment(Value):
    """The end of an attachment, and the launcher's result if the agent ended."""

    end: str
    result: bytes = b""


def receive_greeting(connection: _socket.socket) -> tuple[bytes, ServerConnection | None]:
    """Return the server's first message, and the connection if it is a greeting; b"" if the server is gone."""
    try:
        message, fds = protocol.receive_fds(connection)
    except OSError:
        return b"", None
    greeting = protocol.parse_greeting(message)
    return message, ServerConnection(connection, greeting, *fds) if greeting and fds else None


def attach(connection: ServerConnection, keys: tuple[TerminalKey, TerminalKey], *, is_first: bool) -> Attachment:
    """Relay until the end of the attachment, then restore the user's terminal. `is_first`: there is nothing to redraw."""
    terminal = ClientTerminal(connection, keys, is_first=is_first)
    client = _ClientProcess(connection, terminal)
    try:
        return client.run()
    finally:
        client.restore_handlers()


class ClientTerminal(Terminal):
    """The user's terminal, relayed to the pty of a session."""

    def __init__(self, connection: ServerConnection, keys: tuple[TerminalKey, TerminalKey], *, is_first: bool) -> None:
        self._connection, self._keys, self._is_first = connection, keys, is_first
        super().__init__()
        self.may_copy = connection.greeting.may_copy
        if not self.starts_in_foreground:
            raise CannotStart(message="cannot attach: stdin and stdout must be the terminal, in the foreground")

    def _open(self) -> None:
        self._master = self._connection.inner

    def _run_relay(self, pipes: tuple[int, int], processes: tuple[int, int, int]) -> None:
        history, keys, is_first = History(self._connection.history), DetachKey(*self._keys), self._is_first

        def make(*parts: object) -> "AttachedRelay":
            return AttachedRelay(*parts, history=history, keys=keys, is_first=is_first)

        ends = relay.RelayDescriptors(self._fd, self._master, *pipes)
        # The socket stays open as long as something reads the pty.
        parts = relay.RelayProcesses(*processes, in_foreground=True, may_copy=self.may_copy)
        relay.run(ends, parts, make, frozenset({self._connection.socket.fileno()}))

    def detach(self) -> None:
        """Reset the user's terminal and end the relay, if it still runs."""
        self._send_command(_DETACH)
        os.waitpid(self._relay, 0)
        self._relay = 0
        self._close()


class AttachedRelay(relay.TerminalRelay):
    """A relay of a client: it keeps the history, draws the screen, and looks for the detach key."""

    def __init__(self, *parts: object, history: History, keys: DetachKey, is_first: bool) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._history, self._keys, self._is_first = history, keys, is_first
        self._is_detached = False

    def relay(self) -> None:
        """Draw the screen, then relay until the end."""
        if not self._is_first:
            self._show_screen()
        super().relay()

    def _show_screen(self) -> None:
        """Draw the screen below the terminal's content; change the inner terminal's size twice, so that the program redraws."""
        rows, columns = self._size
        replay = make_replay(self._history.modes(), self._history.output())
        self._output.scan(replay)
        self._make_raw()
        title = SAVE_TITLE if self._output.has_sequences else b""
        self._pending_output = title + b"\n" * rows + b"\x1b[H\x1b[J" + replay
        self._flush()
        try:
            termios.tcsetwinsize(self._ends.inner, (max(1, rows - 1), columns))
            time.sleep(_REDRAW_DELAY)
        except termios.error:
            return  # the session has ended
        self.copy_size()

    def _is_done(self) -> bool:
        return self._is_detached or super()._is_done()

    def _read_user(self) -> None:
        super()._read_user()
        self._input, self._is_detached = self._keys.split(self._input)

    def _read_inner(self) -> int:
        size = super()._read_inner()
        self._history.add(self._views[0][:size])
        return size

    def _run_command(self, command: bytes) -> None:
        if command == _DETACH:
            self._is_detached = True  # replied to at the end
        else:
            super()._run_command(command)


class _ClientProcess:
    """The client's own process, which receives the server's messages and the signals of the user's shell."""

    def __init__(self, connection: ServerConnection, terminal: ClientTerminal) -> None:
        self._socket, self._launcher, self._terminal = connection.socket, connection.greeting.launcher, terminal
        self._launcher_fd = _open_pid(self._launcher)
        self._wakeup, wakeup_w = os.pipe()
        os.set_blocking(self._wakeup, False)
        self._is_hung_up = self._is_continued = False
        signals.set_wakeup_fd(wakeup_w)
        self._saved = [(number, signals.catch(number, self._forward)) for number in _FORWARDED]
        self._saved.append((signals.CONT, signals.catch(signals.CONT, self._on_continue)))
        self._saved.append((signals.HUP, signals.catch(signals.HUP, self._on_hangup)))
        if signals.is_ignored(self._saved[-1][1]):  # nohup
            signals.ignore(signals.HUP)

    def restore_handlers(self) -> None:
        """Restore the signal handlers."""
        for number, action in reversed(self._saved):
            signals.restore(number, action)

    def _forward(self, number: int, _frame: object) -> None:
        self._signal_launcher(number)

    def _on_continue(self, _number: int, _frame: object) -> None:
        self._is_continued = True

    def _on_hangup(self, _number: int, _frame: object) -> None:
        self._is_hung_up = True

    def _signal_launcher(self, number: int) -> None:
        if self._launcher_fd >= 0:
            signals.pidfd_send_signal(self._launcher_fd, number)

    def run(self) -> Attachment:
        """Relay until the end."""
        self._terminal.start_relay(0, 0)
        self._signal_launcher(signals.CONT)  # continues an agent that was stopped when its client left
        relay_fd = os.pidfd_open(self._terminal.relay_pid)
        poll = select.poll()
        for fd in (self._socket.fileno(), relay_fd, self._wakeup, self._launcher_fd):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._wakeup in ready:
                os.read(self._wakeup, 64)
                self._continue()
            if self._is_hung_up or relay_fd in ready:
                self._terminal.detach()
                return Attachment(DETACHED)
            if self._socket.fileno() in ready and (attachment := self._read_message()):
                return attachment
            if self._launcher_fd in ready and self._socket.fileno() not in ready:
                return self._lost()

    def _continue(self) -> None:
        """Go on after a stop."""
        if self._is_continued:
            self._is_continued = False
            self._terminal.resume()
            self._signal_launcher(signals.CONT)

    def _read_message(self) -> Attachment | None:
        message = self._socket.recv(protocol.MAX_MESSAGE)
        if message == protocol.SUSPEND:
            self._terminal.suspend()
            os.kill(0, signals.STOP)  # our whole job, as the shell sees it; SIGCONT continues here
            self._is_continued = True
            self._continue()
        elif message == protocol.BELL:
            os.kill(self._terminal.relay_pid, signals.URG)
        elif message == protocol.END:
            self._terminal.finish()
            return self._wait_for_result()
        elif message == protocol.TAKEN:
            self._terminal.detach()
            return Attachment(TAKEN)
        elif message[:1] == protocol.RESULT:
            self._terminal.finish()
            return Attachment(ENDED, message[1:])
        return self._lost() if not message else None

    def _wait_for_result(self) -> Attachment:
        """Acknowledge the end of the output, and wait for the launcher's result."""
        try:
            self._socket.send(protocol.OUTPUT_DONE)
            while message := self._socket.recv(protocol.MAX_MESSAGE):
                if message[:1] == protocol.RESULT:
                    return Attachment(ENDED, message[1:])
                if message == protocol.TAKEN:
                    return Attachment(TAKEN)
        except OSError:
            pass  # the server is gone
        return Attachment(LOST)

    def _lost(self) -> Attachment:
        self._terminal.detach()
        return Attachment(LOST)


def _open_pid(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1
