"""The keeper: the process between the launcher and bubblewrap, which makes namespaces and outlives nothing.

The launcher forks the keeper; the keeper enters namespaces of its own, mounts what must be mounted without following a
link, and starts bubblewrap as init of its pid namespace. Each of the three dies with its parent, and the handshakes close
the windows in which a parent could die unnoticed, so a launcher killed at any moment leaves no agent behind. As init
bubblewrap's monitor ignores Ctrl-C, too.
"""

import os

from agent_dev.core.plan import Bind, Mask, Mount, Overlay
from agent_dev.host import kernel, signals
from agent_dev.host.folders import walk
from agent_dev.value import Value

FAILED = b"!"  # begins the keeper's report when a step failed: "!errno\0what"


class Order(Value):
    """What the keeper shall do; every path is the host's."""

    program: str
    words: tuple[str, ...]
    mounts: tuple[Mount, ...]
    home: str  # inside
    agent_home: str
    empty: str  # an empty file, for masks
    namespaces: bool  # False: no namespaces of its own, bubblewrap is started as it is


def run(order: Order, go: int, report: int, launcher: int) -> None:
    """Be the keeper. Never returns. `go` is read once, then closed; the report goes to `report`."""
    code = 125
    try:
        _part_from_launcher(launcher)
        if os.read(go, 1):
            code = _keep(order, report, launcher) if order.namespaces else _become(order, report)
    except OSError as error:
        os.write(report, FAILED + f"{error.errno}\0{error.strerror or error}".encode(errors="surrogateescape"))
    finally:
        os._exit(code)


def _part_from_launcher(launcher: int) -> None:
    os.setpgid(0, 0)
    for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM):
        signals.swallow(number)
    for number in (signals.TTOU, signals.CONT, signals.WINCH):
        signals.default(number)
    _die_with(launcher)


def _die_with(parent: int) -> None:
    kernel.die_with_parent()
    if os.getppid() != parent:
        os._exit(125)


def _become(order: Order, report: int) -> int:
    os.write(report, b"%d" % os.getpid())
    os.close(report)
    for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM):
        signals.default(number)
    signals.as_started()
    os.execve(order.program, order.words, {})


def _keep(order: Order, report: int, launcher: int) -> int:
    enter_namespaces()
    _die_with(launcher)  # entering a user namespace took the setting back
    kernel.mount(None, "/", None, kernel.REC | kernel.SLAVE)
    _mount_all(order)
    ready, ready_w = os.pipe()
    start, start_w = os.pipe()
    init = os.fork()
    if init == 0:
        _be_init(order, ready_w, start)
    os.close(ready_w)
    os.close(start)
    os.read(ready, 1)
    os.write(report, b"%d" % init)
    os.close(report)
    os.write(start_w, b"x")
    os.closerange(3, 256)
    _, status = os.waitpid(init, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _be_init(order: Order, ready: int, start: int) -> None:
    try:
        kernel.die_with_parent()
        os.write(ready, b"r")
        os.close(ready)
        if os.read(start, 1):
            for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM):
                signals.default(number)
            signals.as_started()
            os.execve(order.program, order.words, {})
    finally:
        os._exit(125)


def enter_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.NEWUSER | kernel.NEWNS | kernel.NEWPID)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)


def _mount_all(order: Order) -> None:
    for mount in order.mounts:
        _mount(order, mount)


def _mount(order: Order, mount: Mount) -> None:
    target = _target(order, mount.target, is_file=isinstance(mount, Mask) or _is_file(mount))
    try:
        match mount:
            case Overlay(_, lower, upper, work):
                mount_overlay(lower, upper, work, target)
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
    """Open a mount's target: below the agent home without following a link, elsewhere by its path."""
    inside = order.home.rstrip("/") + "/"
    if not target.startswith(inside):
        return os.open(target, os.O_PATH | os.O_CLOEXEC)
    home = os.open(order.agent_home, os.O_PATH | os.O_DIRECTORY)
    try:
        return walk(home, target[len(inside) :], last_is_file=is_file)
    finally:
        os.close(home)


def _bind(source: str, target: int, attributes: int) -> None:
    copy = kernel.clone_mount(source)
    try:
        kernel.restrict_mount(copy, attributes)
        kernel.attach_mount(copy, target)
    finally:
        os.close(copy)


def mount_overlay(lower: str, upper: str, work: str, target: int) -> None:
    """Mount an overlay at an open directory; layers go in by descriptor, so that any name works and none shows."""
    fds = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in (lower, upper, work)]
    try:
        data = "lowerdir=/proc/self/fd/{},upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{},userxattr".format(*fds)
        kernel.mount("overlay", f"/proc/self/fd/{target}", "overlay", kernel.NOSUID | kernel.NODEV, data)
    finally:
        for fd in fds:
            os.close(fd)
