"""The setup process between the launcher and bubblewrap: it creates namespaces, mounts overlays and ends with them.

The launcher forks it first, so that namespaces are created while the launcher still plans. It then reads its spec, makes the
mounts that must not follow a link, and starts bubblewrap as init of its pid namespace, in that init's own process group, so that
a signal from the agent to its group reaches nothing outside. The setup process leads the session, which has the sandbox's own
terminal or none: with a parent in its session the group can be stopped, which an orphaned group cannot. Each of the three dies
with its parent, and no step starts before the process that would kill it is known to be alive, so a launcher that is killed at
any moment leaves no agent behind:

    launcher                setup process                  init, later bubblewrap
    fork            ──→     lead a session, die with the launcher
    plan                    enter namespaces
    send the spec   ──→     mount, fork            ──→     die with the setup process
    read init's pid ←──     report
    start the relay
    read            ←───────────────────────────────       "ready"
    see that the setup process is alive
    write "go"              ───────────────────────→       exec; on end of file: exit
"""

import errno
import marshal
import os

from agent_dev.fs.safe_mkdir import open_below
from agent_dev.linux import cgroups, signals, streams, syscalls, unix_socket, user_limits
from agent_dev.paths import is_below
from agent_dev.sandbox.plan import Bind, Mask, MaskedView, Mount, Overlay
from agent_dev.sandbox.terminal.foreground import move_to_foreground, open_terminal
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_dev.sandbox.joining.service import JoinSpec

# Per process. Not RLIMIT_AS for memory: JavaScript and Java engines reserve many times what they use.
_LIMITS = {
    "memory": syscalls.DATA,
    "processes": syscalls.PROCESSES,
    "open-files": syscalls.OPEN_FILES,
}
FAILED = b"!"  # starts the report of a failed step: "!errno\0reason"
READY = b"+"  # init's report, before or after that of the setup process: "pid listener\n"
HOLD_FD, STATUS_FD = -1, -2  # in a spec's arguments: the descriptors of --block-fd and --json-status-fd
NO_LISTENER, LISTENER_EXISTS = -1, -2  # in the report, instead of the listener
_BIND, _OVERLAY, _MASK, _VIEW = range(4)
_LAUNCHER_SIGNALS = (signals.INT, signals.QUIT, signals.HUP, signals.TERM)


class SetupSpec(Value):
    """The setup process's spec; every path is the host's.

    A number in `bwrap_arguments` is the descriptor of that file in `files`, or HOLD_FD or STATUS_FD.
    """

    program: str
    bwrap_arguments: tuple[str | int, ...]
    command: tuple[str, ...]
    files: tuple[bytes, ...]
    mounts: tuple[Mount, ...]
    home: str  # inside
    agent_home: str
    empty: str  # an empty file, for masks
    notify_filter: bytes = b""  # a filter that notifies the supervisor; empty: none
    limits: tuple[tuple[str, int], ...] = ()
    early_binds: tuple[tuple[str, str], ...] = ()  # directories that overlays will hide, and their early mount points
    early_overlays: tuple[tuple[str, str, str, str], ...] = ()  # mounted before anything else: target, lower, upper, work
    env: tuple[tuple[str, str], ...] = ()  # inside, for commands that join
    join_socket: str = ""  # where commands ask to join; empty: none can
    is_listener_required: bool = True  # if False, the sandbox starts even if the kernel cannot notify
    has_landlock_step: bool = (
        False  # whether a step inside applies Landlock rules: a layer of ours would forbid all moves between directories
    )

    def encode(self) -> bytes:
        """Return the spec as bytes, made of plain values only."""
        return marshal.dumps(tuple({**self.as_dict(), "mounts": tuple(map(_encode_mount, self.mounts))}.values()))


def _encode_mount(mount: Mount) -> tuple[int | str, ...]:
    match mount:
        case Overlay(target, lower, upper, work, middle):
            return (_OVERLAY, target, lower, upper, work, middle)
        case Bind(target, source, writable):
            return (_BIND, target, source, "w" if writable else "", "")
        case Mask(target):
            return (_MASK, target, "", "", "")
        case MaskedView(target, lower, front):
            return (_VIEW, target, lower, front, "")
        case _:
            raise ValueError(f"{mount.target} is below a path that the agent can write to")


def _decode_mount(values: "Any") -> Mount:
    kind, target, *rest = values
    if kind == _OVERLAY:
        return Overlay(target, *rest)
    if kind == _VIEW:
        return MaskedView(target, rest[0], rest[1])
    return Bind(target, rest[0], bool(rest[1])) if kind == _BIND else Mask(target)


class Pipes(Value):
    """The setup process's pipe ends: spec and `go` are read, the report is written; hold and status are bubblewrap's.

    `cgroups`: reports whether the sandbox has its own control groups.
    """

    spec: int
    go: int
    report: int
    hold: int
    status: int
    cgroups: int


def run(pipes: Pipes, launcher: int, group: str, *, namespaces: bool, in_foreground: bool) -> None:
    """Run the setup process, already a session leader, in control groups of this name. Never returns.

    `in_foreground`: the agent starts in the foreground of the session's terminal; otherwise SIGUSR1 moves it there.
    """
    code = 125
    try:
        _detach_from_launcher(launcher)
        os.write(pipes.cgroups, b"y" if cgroups.join_new(group) else b"n")
        os.close(pipes.cgroups)
        failure = _try_namespaces(launcher) if namespaces else None
        import agent_dev.sandbox.joining.service  # noqa: F401  while the launcher plans, and before an overlay can hide our files

        data = streams.read_to_end(pipes.spec)
        if data:
            if failure:
                raise failure
            code = _start_and_wait(_decode(data), pipes, namespaces=namespaces, in_foreground=in_foreground)
    except OSError as error:
        os.write(pipes.report, _failure(error))
    finally:
        os._exit(code)


def _failure(error: OSError) -> bytes:
    return FAILED + f"{error.errno}\0{error.strerror or error}".encode(errors="surrogateescape")


def _decode(data: bytes) -> SetupSpec:
    order = SetupSpec(*marshal.loads(data))  # noqa: S302  (our own parent wrote it)
    return order.replace(mounts=tuple(map(_decode_mount, order.mounts)))


def _detach_from_launcher(launcher: int) -> None:
    for number in (*_LAUNCHER_SIGNALS, signals.USR1):
        signals.catch_and_drop(number)
    for number in (signals.TTOU, signals.CONT, signals.WINCH):
        signals.reset(number)
    _die_with(launcher)


def _die_with(parent: int) -> None:
    syscalls.die_with_parent()
    if os.getppid() != parent:
        os._exit(125)


def _try_namespaces(launcher: int) -> OSError | None:
    """Enter the namespaces; return a failure, to be raised when a spec arrives."""
    try:
        limits = user_limits.read_limits()
        enter_namespaces()
        user_limits.halve_limits(limits)
        _die_with(launcher)  # entering a user namespace resets the setting
        syscalls.mount(None, "/", None, syscalls.REC | syscalls.SLAVE)
    except OSError as error:
        return error
    return None


def _process_limits(order: SetupSpec) -> tuple[tuple[int, int], ...]:
    """Return the limits that everything in the sandbox inherits; a core dump would be a file in the repository."""
    limits = ((_LIMITS[name], value) for name, value in order.limits if value and name in _LIMITS)
    return ((syscalls.CORE, 0), *limits)


def _install_listener(program: bytes, *, is_needed: bool) -> int:
    """Install the filter on this process and its children; return the listener, or a negative code."""
    if not program:
        return NO_LISTENER
    try:
        return syscalls.install_listener(program)
    except OSError as error:
        if error.errno == errno.EBUSY:  # nested in another agent-dev: the kernel allows one listener
            return LISTENER_EXISTS
        if is_needed:
            raise
        return NO_LISTENER


def _make_files(order: SetupSpec, pipes: Pipes) -> int:
    """Make the files that bubblewrap reads, inheritable; return the descriptor of the one with its arguments."""
    fds = [create_memfd(data) for data in order.files]
    numbers = {HOLD_FD: pipes.hold, STATUS_FD: pipes.status, **dict(enumerate(fds))}
    arguments = (argument if isinstance(argument, str) else str(numbers[argument]) for argument in order.bwrap_arguments)
    argument_file = create_memfd(b"".join(os.fsencode(argument) + b"\0" for argument in arguments))
    for fd in (*fds, argument_file, pipes.hold, pipes.status):
        os.set_inheritable(fd, True)
    return argument_file


def _exec(order: SetupSpec, argument_file: int) -> None:
    for number in _LAUNCHER_SIGNALS:
        signals.reset(number)
    signals.reset_python_defaults()
    for resource, value in _file_size_limit(order):
        syscalls.set_limit(resource, value)  # set last, since the file-size limit also applies to memfds
    os.execve(order.program, ("bwrap", "--args", str(argument_file), "--", *order.command), {})


def _file_size_limit(order: SetupSpec) -> tuple[tuple[int, int], ...]:
    size = dict(order.limits).get("file-size", 0)
    return ((syscalls.FILE_SIZE, size),) if size else ()


def create_memfd(data: bytes) -> int:
    """Return an inheritable memfd with this content: the only kind of file that bubblewrap gets from us."""
    fd = os.memfd_create("agent-dev", os.MFD_CLOEXEC)
    if os.write(fd, data) != len(data):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _start_and_wait(order: SetupSpec, pipes: Pipes, *, namespaces: bool, in_foreground: bool) -> int:
    """Start bubblewrap and wait for it. Without our namespaces, bubblewrap creates them and makes all mounts."""
    if namespaces:
        _mount_all(order)
    else:
        order = order.replace(limits=(*order.limits, ("processes", 0)))  # would count all processes of the user
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # init mounts another
    join_socket = _listen(order.join_socket)
    if syscalls.has_landlock_scopes() and not order.has_landlock_step:
        syscalls.restrict_scopes()
    terminal = open_terminal() if in_foreground else -1  # now, before the filter can stop the call
    listener = _install_listener(order.notify_filter, is_needed=order.is_listener_required)
    init = os.fork()
    if init == 0:
        _run_init(order, pipes, listener, namespaces=namespaces)
    os.setpgid(init, init)
    signals.catch(signals.USR1, lambda *_: move_to_foreground(init))
    if in_foreground:
        move_to_foreground(init, terminal)
    os.write(pipes.report, b"%d %d\n" % (init, listener))
    os.close(pipes.report)  # the launcher reads up to its end, and our next call may wait for the supervisor
    if join_socket >= 0:
        from agent_dev.sandbox.joining import service  # loaded before

        service.wait_for_init(init, join_socket, proc, _join_spec(order))
    else:
        os.closerange(0, 256)  # the terminal too: closing its last descriptor hangs it up
    _, status = os.waitpid(init, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _listen(path: str) -> int:
    """Return a socket on which commands ask to join; -1 if none is wanted, or the file system has no sockets."""
    if not path:
        return -1
    from agent_dev.sandbox.joining import service  # loaded before

    try:
        return unix_socket.listen_at(path, service.KIND, service.BACKLOG)
    except OSError:
        return -1


def _join_spec(order: SetupSpec) -> "JoinSpec":
    from agent_dev.sandbox.joining import service  # loaded before

    step = order.command[: order.command.index("--") + 1] if order.has_landlock_step else ()
    return service.JoinSpec(order.env, order.files[-1], (*_process_limits(order), *_file_size_limit(order)), step)


def _run_init(order: SetupSpec, pipes: Pipes, listener: int, *, namespaces: bool) -> None:
    """Run init. Never returns. After a failure, too, it waits for the launcher, which still attaches the supervisor to it."""
    argument_file, report = -1, READY
    try:
        try:
            argument_file = _prepare_init(order, pipes, namespaces=namespaces)
        except OSError as error:
            report = _failure(error)
        os.write(pipes.report, report)
        os.close(pipes.report)
        if os.read(pipes.go, 1):
            if listener >= 0:
                os.close(listener)  # otherwise we would wait forever if the supervisor died
            _exec(order, argument_file)
    finally:
        os._exit(125)


def _prepare_init(order: SetupSpec, pipes: Pipes, *, namespaces: bool) -> int:
    """Prepare this process to exec bubblewrap; return the descriptor of bubblewrap's arguments."""
    signals.reset(signals.USR1)
    syscalls.die_with_parent()
    if namespaces:  # otherwise this would be the host's /proc
        _mount_proc()
    for resource, value in _process_limits(order):
        syscalls.set_limit(resource, value)
    return _make_files(order, pipes)


def _mount_proc() -> None:
    """Mount a /proc for our pid namespace: bubblewrap looks up its child there by the pid in that namespace.

    A container that masks a part of /proc refuses this. Bubblewrap then takes whichever process has that pid outside.
    """
    try:
        syscalls.mount("proc", "/proc", "proc", syscalls.NOSUID | syscalls.NODEV | syscalls.NOEXEC)
    except OSError:
        pass  # explained when bubblewrap fails


def enter_namespaces() -> None:
    """Enter new user, mount and pid namespaces, as the same user."""
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.NEWUSER | syscalls.NEWNS | syscalls.NEWPID)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)


def _mount_all(order: SetupSpec) -> None:
    for target, lower, upper, work in order.early_overlays:
        _mount_early(target, lower, upper, work)
    for source, target in order.early_binds:
        _bind_early(source, target)
    for mount in order.mounts:
        _mount(order, mount)
    _protect_program(order.program)


def _mount_early(target: str, lower: str, upper: str, work: str) -> None:
    """Mount an overlay at a directory of the session, which no agent could change."""
    fd = os.open(target, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mount_overlay(lower, upper, work, fd)
    finally:
        os.close(fd)


def _bind_early(source: str, path: str) -> None:
    """Bind a directory, read-only, at a path in the session's folder, before an overlay hides it."""
    os.makedirs(path, 0o700, exist_ok=True)  # it exists in a resumed session
    target = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _bind(source, target, syscalls.ATTR_RDONLY | syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV)
    finally:
        os.close(target)


def _protect_program(path: str) -> None:
    """Bind bubblewrap read-only over itself: otherwise an agent of its owner could change its mode through `/proc/1/exe`."""
    target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _bind(path, target, syscalls.ATTR_RDONLY)
    finally:
        os.close(target)


def _mount(order: SetupSpec, mount: Mount) -> None:
    target = _open_target(order, mount.target, is_file=isinstance(mount, Mask) or _is_file(mount))
    try:
        match mount:
            case Overlay(_, lower, upper, work, middle):
                mount_overlay(lower, upper, work, target, middle)
            case MaskedView(_, lower, front):
                mount_masked_view(lower, front, target)
            case Bind(_, source, writable):
                attributes = syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV | (0 if writable else syscalls.ATTR_RDONLY)
                _bind(source, target, attributes)
            case Mask(_):
                _bind(order.empty, target, syscalls.ATTR_RDONLY | syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV)
            case _:
                raise OSError(22, f"{mount.target} is below a path that the agent can write to")
    finally:
        os.close(target)


def _is_file(mount: Mount) -> bool:
    return isinstance(mount, Bind) and not os.path.isdir(mount.source)


def _open_target(order: SetupSpec, target: str, *, is_file: bool) -> int:
    """Open a mount target: below the agent home or a root without following links, elsewhere by its path."""
    inside = order.home.rstrip("/")
    roots = (mount.target for mount in order.mounts if isinstance(mount, Overlay) and mount.target != target)
    for top, source in ((inside, order.agent_home), *((root, root) for root in roots)):
        if target != top and is_below(target, top):
            start = os.open(source, os.O_PATH | os.O_DIRECTORY)
            try:
                return open_below(start, target[len(top) + 1 :], last_is_file=is_file)
            finally:
                os.close(start)
    return os.open(target, os.O_PATH | os.O_CLOEXEC)


def _bind(source: str, target: int, attributes: int) -> None:
    copy = syscalls.clone_mount(source)
    try:
        syscalls.restrict_mount(copy, attributes)
        syscalls.attach_mount(copy, target)
    finally:
        os.close(copy)


def mount_overlay(lower: str, upper: str, work: str, target: int, middle: str = "") -> None:
    """Mount an overlay at an open directory; layers are passed by descriptor, so that any name works and no name is visible."""
    lower_layers = (middle, lower) if middle else (lower,)
    sources = ":".join(["/proc/self/fd/{}"] * len(lower_layers))
    layers = f"lowerdir={sources},upperdir=/proc/self/fd/{{}},workdir=/proc/self/fd/{{}},userxattr"
    _mount_layers(layers, (*lower_layers, upper, work), target, syscalls.NOSUID | syscalls.NODEV)


def mount_masked_view(lower: str, mask_layer: str, target: int) -> None:
    """Mount a read-only overlay at an open directory: the entries of the mask layer hide those of `lower`."""
    layers = "lowerdir=/proc/self/fd/{}:/proc/self/fd/{},userxattr"
    _mount_layers(layers, (mask_layer, lower), target, syscalls.NOSUID | syscalls.NODEV | syscalls.RDONLY)


def _mount_layers(layers: str, paths: tuple[str, ...], target: int, flags: int) -> None:
    fds = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in paths]
    try:
        syscalls.mount("overlay", f"/proc/self/fd/{target}", "overlay", flags, layers.format(*fds))
    finally:
        for fd in fds:
            os.close(fd)
