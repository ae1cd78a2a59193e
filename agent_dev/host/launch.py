"""Start bubblewrap behind a keeper and wait until every process of the sandbox is gone."""

import errno
import os
import select

from agent_dev.core import bwrap
from agent_dev.core.plan import File, Mask, SandboxPlan
from agent_dev.errors import CannotStart
from agent_dev.host import debug, keeper, seccomp, signals
from agent_dev.host.terminal import Terminal
from agent_dev.value import Value


class Sandbox(Value):
    """A sandbox that is built and held just before the agent, or running."""

    keeper: int  # pid of the keeper, our child, leader of the sandbox's process group
    init: int  # pid of the first process of the recorded pid namespace, as we see it
    init_fd: int  # its pidfd: readable when the last process of the namespace is gone
    pid_namespace: int  # inode
    status_fd: int  # what bubblewrap says of the child and its exit code
    hold_fd: int  # written to: the agent may start
    has_keeper: bool


class Way(Value):
    """How sandboxes are made on this machine."""

    overlays: str  # bwrap.BY_BWRAP or bwrap.BY_LAUNCHER
    namespaces: bool = True  # the keeper makes namespaces of its own


class KeeperFailed(CannotStart):
    """the sandbox cannot be prepared: {reason}"""


def start(plan: SandboxPlan, program: str, way: Way, empty: str, terminal: Terminal) -> Sandbox:
    """Build the sandbox and hold it before the agent starts; raises KeeperFailed or CannotStart, with nothing left."""
    share = bwrap.divide(plan, way.overlays)
    descriptors = {m.target: _memory(m.data if isinstance(m, File) else b"") for m in share.bwrap if isinstance(m, File | Mask)}
    hold_r, hold = os.pipe()
    status, status_w = os.pipe()
    terminal_filter = _filter()
    words = (
        *bwrap.arguments(plan, share.bwrap, descriptors),
        *("--block-fd", str(hold_r), "--json-status-fd", str(status_w), "--seccomp", str(terminal_filter)),
    )
    debug.show((program, *words, "--", *plan.command))
    arguments = _memory(b"\0".join(map(os.fsencode, words)) + b"\0")
    inherited = (*descriptors.values(), hold_r, status_w, terminal_filter, arguments)
    order = keeper.Order(
        program=program,
        words=("bwrap", "--args", str(arguments), "--", *plan.command),
        mounts=share.launcher,
        home=plan.home,
        agent_home=plan.agent_home,
        empty=empty,
        namespaces=way.namespaces,
    )
    for fd in inherited:
        os.set_inheritable(fd, True)
    try:
        pid, reported = _fork_keeper(order, terminal)
    finally:
        for fd in inherited:
            os.close(fd)
    return _held(pid, reported, status, hold, terminal, has_keeper=way.namespaces)


def _filter() -> int:
    program = seccomp.program()
    if not program:
        raise CannotStart(message=f"there is no system-call filter for {os.uname().machine}", hint="x86_64 and aarch64 work")
    return _memory(program)


def _memory(data: bytes) -> int:
    """Return a file in memory that a child may inherit: the only kind of file that bubblewrap ever gets from us."""
    fd = os.memfd_create("agent-dev", os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def close_inherited() -> None:
    """Keep what our own parent left open from going inside."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                continue  # the one that listdir used


def _fork_keeper(order: keeper.Order, terminal: Terminal) -> tuple[int, bytes]:
    go_r, go = os.pipe()
    report_r, report = os.pipe()
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        keeper.run(order, go_r, report, launcher)
    os.close(go_r)
    os.close(report)
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass  # the keeper was faster
    terminal.lend(pid)
    os.write(go, b"x")
    os.close(go)
    return pid, _read_all(report_r)


def _read_all(fd: int) -> bytes:
    data = b""
    while piece := os.read(fd, 65536):
        data += piece
    os.close(fd)
    return data


def _held(pid: int, reported: bytes, status: int, hold: int, terminal: Terminal, *, has_keeper: bool) -> Sandbox:
    try:
        if not reported or reported.startswith(keeper.FAILED):
            number, _, what = reported[1:].decode(errors="surrogateescape").partition("\0")
            raise KeeperFailed(reason=what or "the keeper ended", number=int(number or 0))
        init = int(reported) if has_keeper else _child_of_bwrap(status)
        init_fd = os.pidfd_open(init)
        namespace = os.stat(f"/proc/{init}/ns/pid").st_ino
    except (OSError, CannotStart) as error:
        os.close(hold)  # nothing is held by it any more: a failed keeper has no sandbox
        os.close(status)
        _end(pid)
        terminal.take_back()
        if isinstance(error, OSError):
            raise KeeperFailed(reason=str(error), number=error.errno or 0) from None
        raise
    return Sandbox(pid, init, init_fd, namespace, status, hold, has_keeper)


def _end(pid: int) -> None:
    os.kill(pid, signals.KILL)
    os.waitpid(pid, 0)


def _child_of_bwrap(status: int) -> int:
    """Return the pid of the sandbox's init, which bubblewrap tells when it has cloned it."""
    told = b""
    while b"}" not in told:
        piece = os.read(status, 4096)
        if not piece:
            raise CannotStart(message="bubblewrap ended before it had built the sandbox")
        told += piece
    return int(told.split(b'"child-pid":')[1].split(b",")[0].split(b"}")[0])


def release(sandbox: Sandbox) -> None:
    """Let the agent start."""
    try:
        os.write(sandbox.hold_fd, b"x")
    except BrokenPipeError:
        pass  # bubblewrap has failed; `finish` tells
    os.close(sandbox.hold_fd)


def is_over(sandbox: Sandbox, timeout: float | None = None) -> bool:
    """Return whether every process of the sandbox is gone, waiting at most `timeout` ms."""
    poll = select.poll()
    poll.register(sandbox.init_fd, select.POLLIN)
    return bool(poll.poll(timeout))


def exit_code(sandbox: Sandbox) -> int | None:
    """Return the agent's exit code (128 + n for a signal) when the sandbox is over; None when it never started."""
    told = _read_all(sandbox.status_fd)
    os.close(sandbox.init_fd)
    if b'"exit-code"' not in told:
        return None
    return int(told.split(b'"exit-code":')[1].split(b"}")[0].split(b",")[0])


def reap(sandbox: Sandbox) -> None:
    """Wait for the keeper, which still takes its mounts apart (8 ms for an overlay, which the kernel syncs)."""
    os.waitpid(sandbox.keeper, 0)


def kill(sandbox: Sandbox) -> None:
    """End every process of the sandbox now."""
    signals.send_by_descriptor(sandbox.init_fd, signals.KILL)


def start_best(plan: SandboxPlan, program: str, version: tuple[int, int, int], empty: str, terminal: Terminal) -> Sandbox:
    """Start with a keeper; where user namespaces are bubblewrap's alone, without one, if bubblewrap is safe by itself.

    Raises KeeperFailed with a hint that says what the refusal means on this machine.
    """
    way = os.environ.get("AGENT_DEV_OVERLAY") or bwrap.default_way(version)
    try:
        return start(plan, program, Way(way), empty, terminal)
    except KeeperFailed as error:
        if error.values.get("number") in (errno.EPERM, errno.EACCES) and version >= bwrap.SAFE_OVERLAY:
            return start(plan, program, Way(bwrap.BY_BWRAP, namespaces=False), empty, terminal)
        from agent_dev.host import explain  # only when something failed

        raise explain.keeper(error, plan) from None
