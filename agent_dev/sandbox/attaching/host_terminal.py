"""The terminal of a session that can be detached: the launcher's side."""

import _socket
import os
import termios

from agent_dev.errors import CannotStart
from agent_dev.linux import streams, unix_socket
from agent_dev.sandbox.attaching import history, protocol
from agent_dev.sandbox.attaching.state import SOCKET
from agent_dev.sandbox.terminal.foreground import END
from agent_dev.sandbox.terminal.pty import Terminal

_BACKLOG = 4  # connections
_SIZE = (24, 80)  # rows and columns without a terminal
_MAX_OUTPUT = 1 << 13  # bytes of our own messages, which must fit into one packet as JSON


class HostTerminal(Terminal):
    """A pty without a user's terminal. Clients attach to it; the launcher leads a session of its own, without a terminal.

    The launcher's stdout and stderr are the user's until the agent starts, then a memory file.
    """

    is_detachable = True

    def __init__(self, client: _socket.socket) -> None:
        """`client`: the connection to the first client."""
        self._client = client
        self._history = history.create_memory()
        self._folder = self._name = ""
        self._messages = -1
        self._is_suspended = self._is_finished = False
        super().__init__()
        self._standard = (0, 1, 2)
        self.starts_in_foreground = self._is_foreground = True
        self._open()

    def _open_user_side(self) -> int:
        return -1

    def _open(self) -> None:
        try:
            self._master, self._slave = os.openpty()
            size = termios.tcgetwinsize(0) if os.isatty(0) else _SIZE
            termios.tcsetwinsize(self._slave, size if all(size) else _SIZE)
            if os.isatty(0):
                termios.tcsetattr(self._slave, termios.TCSANOW, termios.tcgetattr(0))
        except (OSError, termios.error) as error:
            message = f"cannot open a terminal for the sandbox: {error.args[-1]}"
            raise CannotStart(message=message, hint="mount devpts at /dev/pts") from None

    def exists(self) -> bool:
        """Return True: the agent has job control."""
        return True

    def describe_session(self, folder: str, name: str) -> None:
        """Set the session's folder, for the socket, and its name."""
        self._folder, self._name = folder, name

    def use_sandbox_side(self) -> None:
        """Use the sandbox's side, in a session leader."""
        self._client.close()
        os.close(self._history)
        super().use_sandbox_side()

    def close_sandbox_side(self) -> None:
        """Keep the sandbox's side until the server starts: a second setup process may need it."""

    def start_relay(self, setup_pid: int, group: int) -> None:
        """Start the attach server."""
        listener = unix_socket.listen_at(f"{self._folder}/{SOCKET}", protocol.KIND, _BACKLOG)
        os.chmod(f"{self._folder}/{SOCKET}", 0o600)
        self._listener = listener
        super().start_relay(setup_pid, group)
        for fd in (listener, self._slave, self._history, self._client.detach()):
            os.close(fd)
        self._slave = -1
        self._leave_user_terminal()

    def _run_relay(self, pipes: tuple[int, int], processes: tuple[int, int, int]) -> None:
        from agent_dev.sandbox.attaching import server  # in its own process

        ends = server.ServerDescriptors(self._master, *pipes, self._listener, self._client.fileno(), self._history)
        server.run(ends, protocol.Greeting(processes[0], os.path.basename(self._folder), self._name, self.may_copy))

    def _leave_user_terminal(self) -> None:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._messages = os.memfd_create("agent-dev-messages", os.MFD_CLOEXEC)
        for fd, target in ((0, null), (1, self._messages), (2, self._messages)):
            os.dup2(target, fd)
        os.close(null)

    def confirm_start(self) -> None:
        """Report to the first client that the agent is running."""
        self._send_command(b"c")

    def open_user_terminal(self) -> int:
        """Return a descriptor of the client's terminal, else -1."""
        pid = 0
        if self._send_command(b"p"):
            pid = int.from_bytes(os.read(self._reply_fd, 4), "big")
        try:
            return os.open(f"/proc/{pid}/fd/0", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC) if pid else -1
        except OSError:
            return -1  # it is gone

    def move_to_foreground(self) -> bool:
        """Return False: the agent is in the foreground from the start."""
        return False

    def suspend(self) -> None:
        """Suspend the client, once: it continues us when it is continued, or when another client attaches."""
        if not self._is_suspended:
            self._is_suspended = True
            super().suspend()

    def resume(self) -> None:
        """Note that the agent is continued."""
        self._is_suspended = False

    def finish(self) -> None:
        """Wait until the remaining output is read; the server stays until `send_result`."""
        if self._relay and not self._is_finished:
            self._is_finished = True
            self._send_command(END)

    def send_result(self, result: bytes) -> None:
        """Send the result of the run to the client, and end the server. Our stdout and stderr remain a memory file."""
        if not self._relay:
            return
        try:
            streams.write_all(self._command_fd, b"=" + len(result).to_bytes(4, "big") + result)
        except OSError:
            pass  # it was killed
        os.waitpid(self._relay, 0)
        self._relay = 0
        self._close()

    def own_messages(self) -> bytes:
        """Return what the launcher wrote to stdout and stderr since the agent started."""
        return os.pread(self._messages, _MAX_OUTPUT, 0) if self._messages >= 0 else b""
