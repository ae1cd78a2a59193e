"""Run a command in a running sandbox, confined as its agent is: the user's part (`service` has the diagram)."""

import _socket
import os
import select
import sys
import time

from agent_dev.errors import CannotStart
from agent_dev.linux import cgroups, unix_socket
from agent_dev.linux.process import first_child, is_exiting
from agent_dev.sandbox import launch
from agent_dev.sandbox.joining import service
from agent_dev.sandbox.joining.service import JoinRequest
from agent_dev.sandbox.sandbox_monitor import MonitorOptions, SandboxMonitor
from agent_dev.sandbox.terminal.pty import Terminal

_PATIENCE, _RETRY_INTERVAL = 5.0, 0.02  # seconds to wait for an agent that is being started
_KILLED = 137  # exit code
_BEGIN_PATIENCE, _END_PATIENCE = 500, 10_000  # ms to wait until a sandbox begins to end, and for its end
_SENT_FDS = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range(3))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.sandbox.redirected_streams import RedirectedStreams


def run_joined(path: str, request: JoinRequest, init: int, *, may_copy: bool = True) -> int | None:
    """Run a command in the sandbox whose socket is at `path` and whose first process is `init`; return its exit code.

    None: the sandbox ended first. Raises CannotStart if the command did not start. `may_copy`: as for the session's agent.
    """
    streams, terminal = launch.open_streams(), Terminal()
    terminal.may_copy = may_copy
    try:
        init_fd = os.pidfd_open(init)
        request = request.replace(in_foreground=terminal.starts_in_foreground, terminal=terminal.standard_streams)
        connection, entering = _request(path, request, streams, terminal)
        if not _enter_groups(init, entering):
            raise CannotStart(message="cannot put the command into the control groups of the session's limits")
        connection.send(service.GO)
        if not _is_ready(connection, terminal):
            raise CannotStart(message="cannot enter the sandbox: has the session just ended?", hint="agent-dev sessions")
        code = _relay_and_wait(connection, entering, terminal)
        if code in {None, _KILLED}:
            return None if _has_ended(init, init_fd) else _KILLED
        return code
    except OSError as error:
        raise CannotStart(message=f"cannot enter the sandbox: {error.strerror}", hint="agent-dev sessions") from None
    finally:
        terminal.finish()
        if streams:
            streams.finish()


def _has_ended(init: int, init_fd: int) -> bool:
    """Return whether the sandbox has ended, which may be why the command was killed; wait for its end if it is ending.

    The first process of its pid namespace exits after all others, so then neither the command nor a child of it is left.
    """
    poll = select.poll()
    poll.register(init_fd, select.POLLIN)
    return bool(poll.poll(_BEGIN_PATIENCE) or (is_exiting(init) and poll.poll(_END_PATIENCE)))


def _request(
    path: str, request: JoinRequest, streams: "RedirectedStreams | None", terminal: Terminal
) -> tuple[_socket.socket, int]:
    """Send a request; return the connection, and the pid of the process that is going to enter the sandbox."""
    message = request.encode()
    if len(message) > service.MAX_REQUEST:
        raise CannotStart(message="the command line is too long", hint="write it to a script in the repository")
    deadline = time.monotonic() + _PATIENCE
    while True:
        connection = unix_socket.connect_to(path, service.KIND)
        reply = connection.recv(64)
        if reply.isdigit():
            break
        if not reply or time.monotonic() > deadline:
            raise CannotStart(message="the session's agent has not started", hint="agent-dev sessions")
        time.sleep(_RETRY_INTERVAL)
    _send(connection, message, streams, terminal)
    return connection, int(reply)


def _send(connection: _socket.socket, message: bytes, streams: "RedirectedStreams | None", terminal: Terminal) -> None:
    """Send a request and the sandbox's side of the standard streams, from a child process that has only that side."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if streams:
                streams.use_sandbox_side()
            terminal.use_sandbox_side()
            connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _SENT_FDS)])
            code = 0
        finally:
            os._exit(code)
    terminal.close_sandbox_side()
    if streams:
        streams.close_sandbox_side()
    if os.waitpid(child, 0)[1]:
        raise CannotStart(message="cannot send the command to the sandbox")


def _is_ready(connection: _socket.socket, terminal: Terminal) -> bool:
    """Wait for the process that enters, and relay to the terminal that it has opened in the sandbox, if any."""
    reply, rights, _, _ = connection.recvmsg(64, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
    for _, _, data in rights:
        terminal.use_master(int.from_bytes(data[:4], sys.byteorder))
    return reply == service.READY


def _enter_groups(init: int, entering: int) -> bool:
    """Move a process into the control groups of the sandbox, which may be others than the setup process's."""
    wanted = cgroups.groups_of(init)
    for folder in {*wanted.values()} - {*cgroups.groups_of(entering).values()}:
        cgroups.add_process(folder, entering)
    return cgroups.groups_of(entering) == wanted


def _relay_and_wait(connection: _socket.socket, entering: int, terminal: Terminal) -> int | None:
    group = first_child(entering)
    terminal.start_relay(entering, group)
    sandbox = launch.Sandbox(
        setup_pid=entering,
        init_pid=entering,
        init_fd=os.pidfd_open(entering),
        pid_namespace=0,
        hold_fd=os.dup(connection.fileno()),
        status_fd=connection.detach(),
        process_group=group,
        has_own_namespaces=False,
        cgroup_name="",
    )
    monitor = SandboxMonitor(sandbox, terminal, MonitorOptions())
    monitor.install_handlers()
    launch.start_agent(sandbox)
    monitor.wait()
    code = launch.exit_code(sandbox)
    terminal.finish()
    monitor.restore_handlers()
    return 128 + monitor.end_signal if monitor.end_signal else code
