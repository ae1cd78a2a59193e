"""Start bubblewrap behind a keeper and wait until every process of the sandbox is gone."""

import errno
import os
import select

from agent_dev import trace as debug
from agent_dev.errors import AgentDevError, CannotStart, KeeperFailed
from agent_dev.linux import signals
from agent_dev.sandbox import bwrap, seccomp
from agent_dev.sandbox import setup_process as keeper
from agent_dev.sandbox.plan import File, Mask, SandboxPlan
from agent_dev.sandbox.terminal import Terminal
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.policy.watcher import Watcher
    from agent_dev.sandbox.cgroup_limits import Group
    from agent_dev.sandbox.redirected_streams import Streams

_KIND, _FILES = 0o170000, (0o100000, 0o040000, 0o060000)  # file, directory, block device


class Sandbox(Value):
    """A sandbox that is built and held just before the agent, or running."""

    keeper: int  # pid of the keeper, our child
    init: int  # pid of the first process of the recorded pid namespace, as we see it; leads the sandbox's process group
    init_fd: int  # its pidfd: readable when the last process of the namespace is gone
    pid_namespace: int  # inode
    status_fd: int  # what bubblewrap says of the child and its exit code
    hold_fd: int  # written to: the agent may start
    group: int  # the sandbox's process group
    has_keeper: bool


class Keeper:
    """A keeper that was started ahead and waits for its order; `dismiss` it when there will be none."""

    def __init__(self, *, namespaces: bool = True) -> None:
        self.streams = _streams()  # before all pipes: what copies must not hold them open
        order, self._order = os.pipe()
        go, self._go = os.pipe()
        self._report, report = os.pipe()
        hold, self._hold = os.pipe()
        self._status, status = os.pipe()
        self.has_namespaces = namespaces
        self.watcher: Watcher | None = None  # hears of each command, where something shall
        self.group: Group | None = None  # of control groups, for limits of the whole sandbox
        launcher = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            if self.streams:
                self.streams.put_on()
            for fd in (self._order, self._go, self._report, self._hold, self._status):
                os.close(fd)
            keeper.run(keeper.Pipes(order, go, report, hold, status), launcher, namespaces=namespaces)
        for fd in (order, go, report, hold, status):
            os.close(fd)
        if self.streams:
            self.streams.let_go()

    def finish_streams(self) -> None:
        """Bring all that was written to the user's files, once the sandbox is over."""
        if self.streams:
            self.streams.finish()
            self.streams = None

    def dismiss(self) -> None:
        """End a keeper that is not needed."""
        if self.pid:
            os.kill(self.pid, signals.KILL)
            os.waitpid(self.pid, 0)
            self._close()
        self.finish_streams()

    def _close(self) -> None:
        self.pid = 0
        for fd in (self._order, self._go, self._report, self._hold, self._status):
            try:
                os.close(fd)
            except OSError:
                continue  # handed over or closed before

    def carry_out(self, order: keeper.Order, terminal: Terminal) -> Sandbox:
        """Have the order carried out up to the moment before the agent. Raises KeeperFailed, with nothing left."""
        _write_all(self._order, order.encoded())
        os.close(self._order)
        reported = _read_all(self._report)
        try:
            sandbox = self._held(reported, terminal)
        except (OSError, AgentDevError) as error:
            self.dismiss()
            terminal.take_back()
            if isinstance(error, OSError):
                raise KeeperFailed(reason=str(error), number=error.errno or 0) from None
            raise
        self.pid = 0
        return sandbox

    def _held(self, reported: bytes, terminal: Terminal) -> Sandbox:
        if not reported or reported.startswith(keeper.FAILED):
            number, _, what = reported[1:].decode(errors="surrogateescape").partition("\0")
            raise KeeperFailed(reason=what or "the keeper ended", number=int(number or 0))
        group, listener = map(int, reported.split())
        if self.watcher is not None:
            self.watcher.follow(group, listener)
        if self.group:
            self.group.hold(group)  # before it becomes bubblewrap and has children
        terminal.lend(group)
        known = _known(group) if self.has_namespaces else None  # while it waits: it may end at once, and we come late
        os.write(self._go, b"x")
        os.close(self._go)
        init, init_fd, namespace = known or _known(_child_of_bwrap(self._status))
        return Sandbox(self.pid, init, init_fd, namespace, self._status, self._hold, group, self.has_namespaces)


def _known(init: int) -> tuple[int, int, int]:
    """Return the sandbox's first process, a descriptor of it, and its PID namespace. Raises OSError when it is gone."""
    return init, os.pidfd_open(init), os.stat(f"/proc/{init}/ns/pid").st_ino


def _streams() -> "Streams | None":
    """Return what stands between the agent and the files that the user redirects to and from; None for none."""
    for fd in range(3):
        try:
            mode = os.fstat(fd).st_mode & _KIND
        except OSError:
            continue  # closed
        if mode in _FILES:
            from agent_dev.sandbox.redirected_streams import Streams  # rare: most runs have a terminal or pipes

            return Streams()
    return None


def start(plan: SandboxPlan, program: str, overlays: str, empty: str, kept: Keeper, terminal: Terminal) -> Sandbox:
    """Build the sandbox and hold it before the agent starts; raises KeeperFailed or CannotStart, with nothing left."""
    command = plan.command
    if not plan.nested:
        from agent_dev.sandbox import landlock_probe as wall  # few profiles forbid sandboxes inside

        plan = wall.add(plan)
    share = bwrap.divide(plan, overlays)
    made = [mount for mount in share.bwrap if isinstance(mount, File | Mask)]
    numbers = {mount.target: number for number, mount in enumerate(made)}
    files = tuple(mount.data if isinstance(mount, File) else b"" for mount in made)
    _check_size(made, dict(plan.limits).get("file-size", 0))
    options = bwrap.arguments(plan, share.bwrap, numbers)
    debug.show((program, *map(str, options), "--", *plan.command))
    order = keeper.Order(
        program=program,
        words=(*options, "--block-fd", keeper.HOLD, "--json-status-fd", keeper.STATUS, "--seccomp", len(files)),
        command=plan.command,
        files=(*files, _filter(nested=plan.nested)),
        mounts=share.launcher,
        home=plan.home,
        agent_home=plan.agent_home,
        empty=empty,
        watch=_watching() if kept.watcher is not None else b"",
        limits=plan.limits,
        aside=share.aside,
        has_wall=plan.command != command,
    )
    return kept.carry_out(order, terminal)


def _check_size(made: "list[File | Mask]", limit: int) -> None:
    """Refuse a limit that bubblewrap would meet itself: it cuts what it writes, and says nothing."""
    for mount in made:
        if limit and isinstance(mount, File) and len(mount.data) > limit:
            message = f"the sandbox is built with {mount.target}, of {len(mount.data)} bytes; file-size is limited to {limit}"
            raise CannotStart(message=message, hint="a larger limit: --limit file-size=…")


def _filter(*, nested: bool) -> bytes:
    program = seccomp.program(nested=nested)
    if not program:
        raise CannotStart(message=f"there is no system-call filter for {os.uname().machine}", hint="x86_64 and aarch64 work")
    return program


def _watching() -> bytes:
    program = seccomp.watching(os.uname().machine)
    if not program:
        raise CannotStart(message=f"commands cannot be watched on {os.uname().machine}", hint="policy: off")
    return program


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def close_inherited() -> None:
    """Keep what our own parent left open from going inside."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                continue  # the one that listdir used


def _read_all(fd: int) -> bytes:
    data = b""
    while piece := os.read(fd, 65536):
        data += piece
    os.close(fd)
    return data


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


def reap(sandbox: Sandbox) -> int:
    """Wait for the keeper, which still takes its mounts apart (8 ms for an overlay); return bubblewrap's exit code."""
    _, status = os.waitpid(sandbox.keeper, 0)
    return os.waitstatus_to_exitcode(status)


def kill(sandbox: Sandbox) -> None:
    """End every process of the sandbox now."""
    signals.send_by_descriptor(sandbox.init_fd, signals.KILL)


def start_best(
    plan: SandboxPlan, program: str, version: tuple[int, int, int], empty: str, kept: Keeper, terminal: Terminal
) -> Sandbox:
    """Start with a keeper; where user namespaces are bubblewrap's alone, without one, if bubblewrap is safe by itself.

    Raises KeeperFailed with a hint that says what the refusal means on this machine.
    """
    overlays = os.environ.get("AGENT_DEV_OVERLAY") or bwrap.default_way(version)
    try:
        return start(plan, program, overlays, empty, kept, terminal)
    except KeeperFailed as error:
        if error.values.get("number") in (errno.EPERM, errno.EACCES) and version >= bwrap.SAFE_OVERLAY:
            alone = Keeper(namespaces=False)
            alone.watcher, alone.group, kept.streams = kept.watcher, kept.group, alone.streams
            return start(plan, program, bwrap.BY_BWRAP, empty, alone, terminal)
        from agent_dev.sandbox import failure_hints as explain  # only when something failed

        raise explain.keeper(error, plan) from None
