"""Sockets of the host that a user shares by name: their paths on the host and in the sandbox, and the risk of each."""

import os
import stat

from agent_dev.errors import Refused
from agent_dev.paths import RUN, is_below
from agent_dev.sandbox.plan import Bind, File, Mount, Tmpfs
from agent_dev.value import Value

SSH_AGENT = f"{RUN}/ssh-agent"  # in the sandbox
WARNINGS = {
    "ssh-agent": "the agent can log in wherever your keys can, while it runs",
    "gpg-agent": "the agent can sign and decrypt with your keys, while it runs",
    "dbus": "the session bus can start programs outside the sandbox: no containment",
    "display": "the agent can read your screen and type into other windows, if the display server allows it",
    "clipboard-images": "the agent can read images of your clipboard, while it runs",
    "docker": "access to the docker socket is root access to this machine: no containment",
}


class SharedSocket(Value):
    """The mounts and variables that one share adds to a sandbox, and its warning."""

    mounts: tuple[Mount, ...]
    env: tuple[tuple[str, str], ...]
    warning: str


class SocketContext(Value):
    """The user's environment, uid and home, and the paths that an agent may have written."""

    environ: dict[str, str]
    uid: int
    home: str
    untrusted: tuple[str, ...]


def share_sockets(names: tuple[str, ...], context: SocketContext) -> tuple[SharedSocket, ...]:
    """Return what each name adds. Raises Refused for a socket that is missing or that an agent could have created."""
    return tuple(_MAKERS[name](context) for name in names)


def share_filtered_ssh_agent(context: SocketContext) -> tuple[SharedSocket, str]:
    """Return what the ssh-agent behind a filter adds, and the path of the user's own socket. Raises Refused as above."""
    return SharedSocket((), (("SSH_AUTH_SOCK", SSH_AGENT),), ""), _ssh_agent_socket(context)


def share_paths(paths: tuple[str, ...], context: SocketContext) -> tuple[SharedSocket, ...]:
    """Return the sockets of `unix:` rules, each at its own path. Raises Refused as above."""
    return tuple(SharedSocket((Bind(path, _socket("", path, f"unix:{path}", context)),), (), "") for path in paths)


def share_warning(name: str) -> str:
    """Return the warning of a share."""
    return f"--share {name}: {WARNINGS[name]}"


def _ssh_agent(context: SocketContext) -> SharedSocket:
    return _shared("ssh-agent", (Bind(SSH_AGENT, _ssh_agent_socket(context)),), ("SSH_AUTH_SOCK", SSH_AGENT))


def _ssh_agent_socket(context: SocketContext) -> str:
    return _socket("ssh-agent", context.environ.get("SSH_AUTH_SOCK", ""), "SSH_AUTH_SOCK", context)


def _gpg_agent(context: SocketContext) -> SharedSocket:
    """Share the restricted socket if there is one, at the path where gpg expects it, since no variable names it."""
    runtime, folder = _runtime(context), f"/run/user/{context.uid}"
    candidates = [
        f"{path}/{name}"
        for name in ("S.gpg-agent.extra", "S.gpg-agent")
        for path in (f"{runtime}/gnupg", f"{context.home}/.gnupg")
    ]
    socket = next((path for path in candidates if os.path.exists(path)), candidates[0])
    source = _socket("gpg-agent", socket, "gpg-agent's socket", context)
    folders = (Tmpfs(folder, _SMALL, "0700"), Tmpfs(f"{folder}/gnupg", _SMALL, "0700"))
    return _shared("gpg-agent", (*folders, Bind(f"{folder}/gnupg/S.gpg-agent", source)))


def _dbus(context: SocketContext) -> SharedSocket:
    address = context.environ.get("DBUS_SESSION_BUS_ADDRESS", "") or f"unix:path={_runtime(context)}/bus"
    path = next((part[5:] for part in address.removeprefix("unix:").split(",") if part.startswith("path=")), "")
    if not path:
        raise Refused(message=f"--share dbus: {address} is not a socket path", hint="only unix:path=… is supported")
    inside = f"{RUN}/bus"
    source = _socket("dbus", path, "DBUS_SESSION_BUS_ADDRESS", context)
    return _shared("dbus", (Bind(inside, source),), ("DBUS_SESSION_BUS_ADDRESS", f"unix:path={inside}"))


def _display(context: SocketContext) -> SharedSocket:
    mounts: list[Mount] = []
    env: list[tuple[str, str]] = []
    wayland, display = context.environ.get("WAYLAND_DISPLAY", ""), context.environ.get("DISPLAY", "")
    if wayland:
        path = wayland if wayland.startswith("/") else f"{_runtime(context)}/{wayland}"
        mounts.append(Bind(f"{RUN}/wayland", _socket("display", path, "WAYLAND_DISPLAY", context)))
        env.append(("WAYLAND_DISPLAY", f"{RUN}/wayland"))
    if display.startswith(":"):
        number = display[1:].partition(".")[0]
        if not number.isdigit():
            raise Refused(message=f"--share display: DISPLAY is {display}", hint="a local display is :0")
        inside = _unused_display()
        mounts.append(Bind(f"{_X_SOCKETS}{inside}", _socket("display", f"{_X_SOCKETS}{number}", "DISPLAY", context)))
        env.append(("DISPLAY", f":{inside}"))
        authority = _x_authority(context, number)
        if authority:
            mounts.append(File(f"{RUN}/xauthority", authority))
            env.append(("XAUTHORITY", f"{RUN}/xauthority"))
    if not mounts:
        raise Refused(message="--share display: neither WAYLAND_DISPLAY nor a local DISPLAY is set")
    return _shared("display", tuple(mounts), *env)


def _unused_display() -> int:
    """Return the number of a display without an abstract socket.

    Clients try the abstract socket first. If Landlock denies it (EPERM) they give up; if it does not exist, they use the other.
    """
    with open("/proc/net/unix", "rb") as file:
        used = file.read()
    return next(number for number in range(_FIRST_DISPLAY, 1 << 16) if f"@{_X_SOCKETS}{number}\n".encode() not in used)


def _x_authority(context: SocketContext, number: str) -> bytes:
    """Return the keys of an X display, from a file that no agent could have written."""
    from agent_dev.linux.x_authority import wild_entries  # rare

    path = os.path.realpath(context.environ.get("XAUTHORITY") or f"{context.home}/.Xauthority")
    if _is_untrusted(path, context):
        return b""
    try:
        with open(path, "rb") as file:
            return wild_entries(file.read(_SMALL), number)
    except OSError:
        return b""


def _docker(context: SocketContext) -> SharedSocket:
    address = context.environ.get("DOCKER_HOST", "") or "unix:///var/run/docker.sock"
    if not address.startswith("unix://"):
        raise Refused(message=f"--share docker: DOCKER_HOST is {address}", hint="only a unix:// socket is supported")
    inside = f"{RUN}/docker.sock"
    source = _socket("docker", address.removeprefix("unix://"), "the docker socket", context)
    return _shared("docker", (Bind(inside, source),), ("DOCKER_HOST", f"unix://{inside}"))


_MAKERS = {"ssh-agent": _ssh_agent, "gpg-agent": _gpg_agent, "dbus": _dbus, "display": _display, "docker": _docker}
_SMALL = 1 << 16
_X_SOCKETS, _FIRST_DISPLAY = "/tmp/.X11-unix/X", 100


def _shared(name: str, mounts: tuple[Mount, ...], *env: tuple[str, str]) -> SharedSocket:
    return SharedSocket(mounts, env, share_warning(name))


def _runtime(context: SocketContext) -> str:
    return context.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{context.uid}"


def _socket(name: str, path: str, label: str, context: SocketContext) -> str:
    """Return the real path of a socket; `name`: the share, "" for a rule."""
    setting = f"--share {name}" if name else "allow"
    if not path:
        raise Refused(message=f"{setting}: {label} is not set")
    real = os.path.realpath(path)
    try:
        is_socket = stat.S_ISSOCK(os.stat(real).st_mode)
    except OSError as error:
        raise Refused(message=f"{setting}: {label}, {path}: {error.strerror}") from None
    if not is_socket:
        raise Refused(message=f"{setting}: {label}, {path}, is not a socket")
    if _is_untrusted(real, context):
        raise Refused(message=f"{setting}: {path} is in a directory that an agent can write to")
    return real


def _is_untrusted(real: str, context: SocketContext) -> bool:
    return any(is_below(real, path) for path in context.untrusted)
