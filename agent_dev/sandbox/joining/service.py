"""Let the user's commands join a running sandbox: the part of the setup process (docs/decisions/0040-joining-a-sandbox.md).

The setup process is in the sandbox's control groups, Landlock domain and command filter, so its children are, too. For each
connection it forks one, which enters the remaining namespaces, gives up every privilege and only then forks the command:

    agent-dev exec             setup process        entering process                  command
    connect           ──→      fork         ──→     receive the request
    read its pid      ←──      send its pid
    add it to the groups of the limits
    "go"              ─────────────────────→        enter, drop privileges, fork
    start the relay   ←────────────────────         "ready", the master of the command's terminal
    "go"              ─────────────────────────────────────────────────────────→      exec
    read the exit code  ←──────────────────         wait

The setup process sees the host's files at first, but the repository as the agent changed it later. So it imports this module
before it mounts anything, and nothing afterwards.
"""

import _socket
import fcntl
import marshal
import os
import select
import sys
import termios

from agent_dev.linux import process, signals, syscalls
from agent_dev.sandbox.joining.step import STEP
from agent_dev.sandbox.terminal.foreground import move_to_foreground
from agent_dev.value import Value

KIND = _socket.SOCK_SEQPACKET  # keeps the boundaries of messages, and descriptors with theirs
GO, READY, NOT_STARTED = b"x", b"r", b"-"
MAX_REQUEST = 1 << 17  # bytes
BACKLOG = 4  # connections
_PATIENCE = 10  # seconds for the client's next message
_STREAMS = 3
_PTMX = "/dev/pts/ptmx"  # of the sandbox's own devpts, in which an agent cannot create or replace anything
_TIOCSPTLCK, _TIOCGPTPEER = 0x40045431, 0x5441  # unlock a pty; open its other side without a path
_NOT_STARTED, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127
_NAMESPACES = {
    "user": syscalls.NEWUSER,
    "mnt": syscalls.NEWNS,
    "pid": syscalls.NEWPID,
    "ipc": syscalls.NEWIPC,
    "uts": syscalls.NEWUTS,
    "net": syscalls.NEWNET,
    "cgroup": syscalls.NEWCGROUP,
}


class JoinSpec(Value):
    """The sandbox's part of a command that joins: variables, system-call filter, limits, and a Landlock step or ()."""

    env: tuple[tuple[str, str], ...]
    syscall_filter: bytes
    limits: tuple[tuple[int, int], ...]  # RLIMIT_* and value
    landlock_step: tuple[str, ...]


class JoinRequest(Value):
    """A command that joins: its words, its directory inside, variables of the user's terminal.

    `terminal`: which of the standard streams are its terminal.
    """

    command: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...]
    in_foreground: bool
    terminal: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """Return the request as one message."""
        return marshal.dumps(tuple(self.as_dict().values()))


class JoinService:
    """Waits for bubblewrap to end; until then forks a process for each command that joins."""

    def __init__(self, init: int, listener: int, proc: int, spec: JoinSpec) -> None:
        self._init, self._proc, self._spec = init, proc, spec
        self._server = _socket.socket(fileno=listener)
        self._init_fd = os.pidfd_open(init)
        self._joined: dict[int, int] = {}  # pidfd → pid
        self._poll = select.poll()
        for fd in (self._init_fd, listener):
            self._poll.register(fd, select.POLLIN)

    def wait(self) -> None:
        """Serve until bubblewrap has ended. The kernel ends it only once every process that entered the namespace is reaped."""
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._init_fd:
                    return
                if fd in self._joined:
                    os.waitpid(self._joined.pop(fd), 0)
                    self._poll.unregister(fd)
                    os.close(fd)
                else:
                    self._accept()

    def _accept(self) -> None:
        try:
            connection = _socket.socket(fileno=self._server._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001
        except OSError:
            return
        try:
            if _peer_uid(connection) == os.getuid():
                self._fork(connection)
        except OSError:
            pass  # the client is gone, or there are too many processes: it sees the end of the connection
        finally:
            connection.close()

    def _fork(self, connection: _socket.socket) -> None:
        target = self._open_target()
        if target is None:
            connection.send(NOT_STARTED)
            return
        pidfd, namespaces = target
        pid = os.fork()
        if pid == 0:
            try:
                _enter_and_run(connection, pidfd, namespaces, self._spec)
            finally:
                os._exit(_NOT_STARTED)
        os.close(pidfd)
        joined = os.pidfd_open(pid)
        self._joined[joined] = pid
        self._poll.register(joined, select.POLLIN)
        connection.send(b"%d" % pid)

    def _open_target(self) -> tuple[int, int] | None:
        """Return a pidfd of the sandbox's first process, and which namespaces differ from ours; None before the agent runs.

        `/proc` has changed since, but a descriptor of the earlier one is open.
        """
        inner = self._first_child(self._init)
        if not inner or not self._first_child(inner):
            return None
        pidfd = os.pidfd_open(inner)
        namespaces = 0
        for name, flag in _NAMESPACES.items():
            ours, theirs = (os.stat(f"{pid}/ns/{name}", dir_fd=self._proc).st_ino for pid in ("self", inner))
            namespaces |= flag if ours != theirs else 0
        return pidfd, namespaces

    def _first_child(self, pid: int) -> int:
        try:
            fd = os.open(f"{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return 0
        children = os.read(fd, 4096).split()
        os.close(fd)
        return int(children[0]) if children else 0


def wait_for_init(init: int, listener: int, proc: int, spec: JoinSpec) -> None:
    """Wait for bubblewrap to end, and let commands join until then. Keeps only these descriptors, and imports nothing more."""
    sys.meta_path.clear()
    process.close_all_but({listener, proc})
    JoinService(init, listener, proc, spec).wait()


def _peer_uid(connection: _socket.socket) -> int:
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def _enter_and_run(connection: _socket.socket, target: int, namespaces: int, spec: JoinSpec) -> None:
    """Enter the sandbox and run the requested command; send its exit code. Never returns."""
    os.setsid()
    syscalls.hide_process()
    signals.reset(signals.USR1)
    signals.set_alarm(_PATIENCE)
    data, streams = _receive(connection)
    if len(streams) != _STREAMS or connection.recv(1) != GO:
        os._exit(_NOT_STARTED)
    request = JoinRequest(*marshal.loads(data))  # noqa: S302  (the user's own agent-dev wrote it)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    process.close_all_but({0, 1, 2, connection.fileno(), target})
    _enter(target, namespaces, spec)
    master = _replace_terminal(request.terminal)
    _control_terminal()
    child = os.fork()
    if child == 0:
        try:
            _exec(connection, request, spec)
        finally:
            os._exit(_NOT_STARTED)
    os.setpgid(child, child)
    if request.in_foreground:
        move_to_foreground(child)
    signals.catch(signals.USR1, lambda *_: move_to_foreground(child))
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, master.to_bytes(4, sys.byteorder))] if master >= 0 else []
    connection.sendmsg([READY], rights)
    process.close_all_but({connection.fileno()})
    code = _wait(child, connection)
    connection.send(b'{"exit-code": %d}' % code)
    os._exit(0)


def _receive(connection: _socket.socket) -> tuple[bytes, list[int]]:
    """Return the request and the standard streams that came with it."""
    data, ancillary, _, _ = connection.recvmsg(MAX_REQUEST, _socket.CMSG_SPACE(4 * _STREAMS), _socket.MSG_CMSG_CLOEXEC)
    fds = [
        int.from_bytes(block[index : index + 4], sys.byteorder)
        for level, kind, block in ancillary
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        for index in range(0, len(block) // 4 * 4, 4)
    ]
    return data, fds


def _replace_terminal(streams: tuple[int, ...]) -> int:
    """Replace the pty of these streams by one that has a name in the sandbox; return its master, -1 if it has no devpts."""
    if not streams:
        return -1
    try:
        master = os.open(_PTMX, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return -1  # without a name, `tty` fails; all else works
    fcntl.ioctl(master, _TIOCSPTLCK, bytes(4))
    slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    termios.tcsetwinsize(slave, termios.tcgetwinsize(streams[0]))
    termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(streams[0]))
    for fd in streams:
        os.dup2(slave, fd)
    os.close(slave)
    return master


def _control_terminal() -> None:
    """Make the first standard stream that is a terminal the controlling terminal of this session."""
    for fd in range(_STREAMS):
        try:
            fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
        except OSError:
            continue  # not a terminal
        return


def _enter(target: int, namespaces: int, spec: JoinSpec) -> None:
    """Enter the sandbox's namespaces without keeping any privilege in them.

    This process stays in the outer pid namespace, where no process of the sandbox can name it. A process that changes its
    credentials can become accessible to others, so it is hidden again each time.
    """
    syscalls.setns(target, namespaces)
    syscalls.hide_process()
    syscalls.drop_capabilities()
    syscalls.hide_process()
    syscalls.die_with_parent()
    for resource, value in spec.limits:
        syscalls.set_limit(resource, value)
    syscalls.install_filter(spec.syscall_filter)


def _exec(connection: _socket.socket, request: JoinRequest, spec: JoinSpec) -> None:
    """Run the command, in the sandbox's pid namespace, once the client is ready."""
    syscalls.die_with_parent()
    os.setpgid(0, 0)
    if connection.recv(1) != GO:
        return
    signals.clear_alarm()
    signals.reset_python_defaults()
    env = {**dict(spec.env), **dict(request.env), "PWD": request.cwd}
    try:
        os.chdir(request.cwd)
    except OSError as error:
        _exit(f"{request.cwd}: {error.strerror}", _NOT_STARTED)
    name = request.command[0]
    if not _exists(name, env.get("PATH", "")):
        _exit(f"{name}: not found in the sandbox", _NOT_FOUND)
    step = spec.landlock_step or STEP
    try:
        os.execve(step[0], (*step, *request.command), env)
    except OSError as error:
        _exit(f"{name}: {error.strerror}", _NOT_EXECUTABLE)


def _exists(name: str, path: str) -> bool:
    """Return whether a program exists in the sandbox, which this process has entered."""
    folders = [""] if "/" in name else [f"{folder}/" for folder in path.split(":")]
    return any(os.path.lexists(folder + name) for folder in folders)


def _exit(message: str, code: int) -> None:
    os.write(2, f"agent-dev: {message}\n".encode("utf-8", "replace"))
    os._exit(code)


def _wait(child: int, connection: _socket.socket) -> int:
    """Return the exit code of the command (128 + n for a signal); hang it up when the client is gone."""
    signals.clear_alarm()
    poll = select.poll()
    poll.register(os.pidfd_open(child), select.POLLIN)
    poll.register(connection.fileno(), 0)
    events = poll.poll()
    if (connection.fileno(), select.POLLHUP) in events:
        for number in (signals.HUP, signals.CONT):
            try:
                os.killpg(child, number)
            except OSError:
                break  # it has ended
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code
