"""The keeper: the process between the launcher and bubblewrap, which makes namespaces and outlives nothing.

The launcher forks it first of all, so that namespaces are made while the plan still is. It then gets its order, mounts what
must be mounted without following a link, and starts bubblewrap as init of its pid namespace, in a process group of that
init's own: what an agent sends to its group reaches nobody outside. Each of the three dies with its parent, and no step is
taken before the one that would end it is known to be there, so a launcher killed at any moment leaves no agent behind:

    launcher                keeper                         init, later bubblewrap
    fork            ──→     die with the launcher
    …plan…                  enter namespaces
    send the order  ──→     mount, fork            ──→     lead a group, die with the keeper
                            read                   ←──     "ready"
    read init's pid ←──     report
    record, lend the terminal
    write "go"              ───────────────────────→       exec; on end of file: exit
"""

import errno
import marshal
import os

from agent_dev.fs.safe_mkdir import walk
from agent_dev.linux import signals
from agent_dev.linux import syscalls as kernel
from agent_dev.sandbox.plan import Bind, Cover, Mask, Mount, Overlay, is_below
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Of single processes. Not RLIMIT_AS for memory: engines of JavaScript and Java reserve many times what they use.
_LIMITS = {
    "memory": kernel.DATA,
    "processes": kernel.PROCESSES,
    "open-files": kernel.OPEN_FILES,
}
FAILED = b"!"  # begins the keeper's report when a step failed: "!errno\0what"
HOLD, STATUS = -1, -2  # among an order's words: the descriptors that hold the agent back and that tell of it
NOT_WATCHED, WATCHED_ALREADY = -1, -2  # in the report, in the place of the listener
_BIND, _OVERLAY, _MASK, _COVER = range(4)
_OURS = (signals.INT, signals.QUIT, signals.HUP, signals.TERM)


class Order(Value):
    """What the keeper shall do; every path is the host's.

    `words` are bubblewrap's; a number among them stands for the descriptor of that file of `files`, or is HOLD or STATUS.
    """

    program: str
    words: tuple[str | int, ...]
    command: tuple[str, ...]
    files: tuple[bytes, ...]
    mounts: tuple[Mount, ...]
    home: str  # inside
    agent_home: str
    empty: str  # an empty file, for masks
    watch: bytes = b""  # a filter that tells of each execve; empty: none
    limits: tuple[tuple[str, int], ...] = ()
    aside: tuple[tuple[str, str], ...] = ()  # directories that the overlays will hide, and where they are shown instead
    has_wall: bool = False  # whether a step inside puts Landlock on: a layer of ours would forbid it to let anything be moved

    def encoded(self) -> bytes:
        """Return the order as bytes, of plain values only."""
        return marshal.dumps(tuple({**self.as_dict(), "mounts": tuple(map(_flat, self.mounts))}.values()))


def _flat(mount: Mount) -> tuple[int, str, str, str, str]:
    match mount:
        case Overlay(target, lower, upper, work):
            return (_OVERLAY, target, lower, upper, work)
        case Bind(target, source, writable):
            return (_BIND, target, source, "w" if writable else "", "")
        case Mask(target):
            return (_MASK, target, "", "", "")
        case Cover(target, lower, front):
            return (_COVER, target, lower, front, "")
        case _:
            raise ValueError(f"{mount.target} lies where an agent can write")


def _unflat(flat: "Any") -> Mount:
    kind, target, *rest = flat
    if kind == _OVERLAY:
        return Overlay(target, *rest)
    if kind == _COVER:
        return Cover(target, rest[0], rest[1])
    return Bind(target, rest[0], bool(rest[1])) if kind == _BIND else Mask(target)


class Pipes(Value):
    """The keeper's ends: orders come in, go is read by init, the report goes out; hold and status are bubblewrap's."""

    order: int
    go: int
    report: int
    hold: int
    status: int


def run(pipes: Pipes, launcher: int, *, namespaces: bool) -> None:
    """Be the keeper. Never returns."""
    code = 125
    try:
        _part_from_launcher(launcher)
        failure = _enter(launcher) if namespaces else None
        data = _read_all(pipes.order)
        if data:
            if failure:
                raise failure
            code = _keep(_decoded(data), pipes) if namespaces else _become(_decoded(data), pipes)
    except OSError as error:
        os.write(pipes.report, _failure(error))
    finally:
        os._exit(code)


def _failure(error: OSError) -> bytes:
    return FAILED + f"{error.errno}\0{error.strerror or error}".encode(errors="surrogateescape")


def _decoded(data: bytes) -> Order:
    order = Order(*marshal.loads(data))  # noqa: S302  (our own parent wrote it)
    return order.but(mounts=tuple(map(_unflat, order.mounts)))


def _read_all(fd: int) -> bytes:
    data = b""
    while piece := os.read(fd, 1 << 20):
        data += piece
    os.close(fd)
    return data


def _part_from_launcher(launcher: int) -> None:
    os.setpgid(0, 0)
    for number in _OURS:
        signals.swallow(number)
    for number in (signals.TTOU, signals.CONT, signals.WINCH):
        signals.default(number)
    _die_with(launcher)


def _die_with(parent: int) -> None:
    kernel.die_with_parent()
    if os.getppid() != parent:
        os._exit(125)


def _enter(launcher: int) -> OSError | None:
    """Enter the namespaces; a failure is kept until somebody asks."""
    try:
        enter_namespaces()
        _die_with(launcher)  # entering a user namespace took the setting back
        kernel.mount(None, "/", None, kernel.REC | kernel.SLAVE)
    except OSError as error:
        return error
    return None


def _become(order: Order, pipes: Pipes) -> int:
    """Be bubblewrap, without namespaces of our own: it makes them alone."""
    _restrict(order, {**dict(order.limits), "processes": 0})  # those of the whole user would be counted
    os.write(pipes.report, b"%d %d" % (os.getpid(), _listen(order.watch)))
    os.close(pipes.report)
    if os.read(pipes.go, 1):
        _exec(order, pipes)
    return 125


def _restrict(order: Order, limits: dict[str, int]) -> None:
    """Put on what everything in the sandbox inherits; a core dump would be a file in the repository."""
    kernel.limit(kernel.CORE, 0)
    for name, value in limits.items():
        if value and name in _LIMITS:
            kernel.limit(_LIMITS[name], value)
    if kernel.has_scopes() and not order.has_wall:
        kernel.scope()


def _listen(program: bytes) -> int:
    """Put the filter on us and all that we start; return the descriptor to be borrowed, -1 for none, -2 when one is on us."""
    if not program:
        return NOT_WATCHED
    try:
        return kernel.listen(program)
    except OSError as error:
        if error.errno == errno.EBUSY:  # inside another sandbox of this kind: the kernel allows one listener
            return WATCHED_ALREADY
        raise


def _exec(order: Order, pipes: Pipes) -> None:
    fds = [memory(data) for data in order.files]
    numbers = {HOLD: pipes.hold, STATUS: pipes.status, **dict(enumerate(fds))}
    words = (word if isinstance(word, str) else str(numbers[word]) for word in order.words)
    arguments = memory(b"".join(os.fsencode(word) + b"\0" for word in words))
    for fd in (*fds, arguments, pipes.hold, pipes.status):
        os.set_inheritable(fd, True)
    for number in _OURS:
        signals.default(number)
    signals.as_started()
    size = dict(order.limits).get("file-size", 0)
    if size:
        kernel.limit(kernel.FILE_SIZE, size)  # not before: files in memory are files
    os.execve(order.program, ("bwrap", "--args", str(arguments), "--", *order.command), {})


def memory(data: bytes) -> int:
    """Return a file in memory that a child may inherit: the only kind of file that bubblewrap ever gets from us."""
    fd = os.memfd_create("agent-dev", os.MFD_CLOEXEC)
    if os.write(fd, data) != len(data):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _keep(order: Order, pipes: Pipes) -> int:
    for source, place in order.aside:
        _show_aside(source, place)
    for mount in order.mounts:
        _mount(order, mount)
    ready, ready_w = os.pipe()
    init = os.fork()
    if init == 0:
        _be_init(order, pipes, ready_w)
    os.close(ready_w)
    said = os.read(ready, 4096) or FAILED
    os.write(pipes.report, said if said.startswith(FAILED) else b"%d %s" % (init, said))
    os.closerange(3, 256)
    _, status = os.waitpid(init, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _be_init(order: Order, pipes: Pipes, ready: int) -> None:
    try:
        os.setpgid(0, 0)
        kernel.die_with_parent()
        _restrict(order, dict(order.limits))
        listener = _listen(order.watch)
        os.write(ready, b"%d" % listener)
        os.close(ready)
        os.close(pipes.report)
        if os.read(pipes.go, 1):
            if listener >= 0:
                os.close(listener)  # or we would wait for an answer for ever when nobody is left to give it
            _exec(order, pipes)
    except OSError as error:
        os.write(ready, _failure(error))
    finally:
        os._exit(125)


def enter_namespaces() -> None:
    """Leave for user, mount and pid namespaces of our own, as the same user."""
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.NEWUSER | kernel.NEWNS | kernel.NEWPID)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)


def _show_aside(source: str, place: str) -> None:
    """Show a directory, read-only, at a place of ours in the session: the overlay above its own is not mounted yet."""
    os.makedirs(place, 0o700, exist_ok=True)  # of a session that is resumed it is there
    target = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _bind(source, target, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV)
    finally:
        os.close(target)


def _mount(order: Order, mount: Mount) -> None:
    target = _target(order, mount.target, is_file=isinstance(mount, Mask) or _is_file(mount))
    try:
        match mount:
            case Overlay(_, lower, upper, work):
                mount_overlay(lower, upper, work, target)
            case Cover(_, lower, front):
                mount_cover(lower, front, target)
            case Bind(_, source, writable):
                attributes = kernel.ATTR_NOSUID | kernel.ATTR_NODEV | (0 if writable else kernel.ATTR_RDONLY)
                _bind(source, target, attributes)
            case Mask(_):
                _bind(order.empty, target, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV)
            case _:
                raise OSError(22, f"{mount.target} lies where an agent can write")
    finally:
        os.close(target)


def _is_file(mount: Mount) -> bool:
    return isinstance(mount, Bind) and not os.path.isdir(mount.source)


def _target(order: Order, target: str, *, is_file: bool) -> int:
    """Open a mount's target: below the agent home or a root without following a link, elsewhere by its path."""
    inside = order.home.rstrip("/")
    roots = (mount.target for mount in order.mounts if isinstance(mount, Overlay) and mount.target != target)
    for place, source in ((inside, order.agent_home), *((root, root) for root in roots)):
        if target != place and is_below(target, place):
            start = os.open(source, os.O_PATH | os.O_DIRECTORY)
            try:
                return walk(start, target[len(place) + 1 :], last_is_file=is_file)
            finally:
                os.close(start)
    return os.open(target, os.O_PATH | os.O_CLOEXEC)


def _bind(source: str, target: int, attributes: int) -> None:
    copy = kernel.clone_mount(source)
    try:
        kernel.restrict_mount(copy, attributes)
        kernel.attach_mount(copy, target)
    finally:
        os.close(copy)


def mount_overlay(lower: str, upper: str, work: str, target: int) -> None:
    """Mount an overlay at an open directory; layers go in by descriptor, so that any name works and none shows."""
    layers = "lowerdir=/proc/self/fd/{},upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{},userxattr"
    _mount_layers(layers, (lower, upper, work), target, kernel.NOSUID | kernel.NODEV)


def mount_cover(lower: str, front: str, target: int) -> None:
    """Mount a read-only overlay at an open directory: what `front` holds hides what `lower` has there."""
    layers = "lowerdir=/proc/self/fd/{}:/proc/self/fd/{},userxattr"
    _mount_layers(layers, (front, lower), target, kernel.NOSUID | kernel.NODEV | kernel.RDONLY)


def _mount_layers(layers: str, paths: tuple[str, ...], target: int, flags: int) -> None:
    fds = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in paths]
    try:
        kernel.mount("overlay", f"/proc/self/fd/{target}", "overlay", flags, layers.format(*fds))
    finally:
        for fd in fds:
            os.close(fd)
