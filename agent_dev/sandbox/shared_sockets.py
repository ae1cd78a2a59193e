"""Sockets of the host that a user hands in by name: where each lies, where it is seen inside, and what that means."""

import os
import stat

from agent_dev.errors import Refused
from agent_dev.sandbox.plan import RUN, Bind, Mount, Tmpfs, is_below
from agent_dev.value import Value

WARNINGS = {
    "ssh-agent": "the agent can log in wherever your keys can, as long as it runs",
    "gpg-agent": "the agent can sign and decrypt with your keys, as long as it runs",
    "dbus": "programs outside the sandbox can be started through the session bus: this is no containment",
    "display": "the agent can see your screen and type into other windows, where the display server lets clients do so",
    "docker": "whoever reaches the docker socket is root on this machine: this is no containment",
}


class Shared(Value):
    """What one share adds to a sandbox, and the line that warns of it."""

    mounts: tuple[Mount, ...]
    env: tuple[tuple[str, str], ...]
    warning: str


class Ground(Value):
    """The user's environment and number, and the places that an agent may have written."""

    environ: dict[str, str]
    uid: int
    home: str
    untrusted: tuple[str, ...]


def shared(names: tuple[str, ...], ground: Ground) -> tuple[Shared, ...]:
    """Return what each name adds. Raises Refused for a socket that is not there or that an agent could have made."""
    return tuple(_MAKERS[name](ground) for name in names)


def _ssh_agent(ground: Ground) -> Shared:
    inside = f"{RUN}/ssh-agent"
    source = _socket("ssh-agent", ground.environ.get("SSH_AUTH_SOCK", ""), "SSH_AUTH_SOCK", ground)
    return _made("ssh-agent", (Bind(inside, source),), ("SSH_AUTH_SOCK", inside))


def _gpg_agent(ground: Ground) -> Shared:
    """Share the restricted socket where there is one, at the place where gpg looks: no variable names it."""
    runtime, folder = _runtime(ground), f"/run/user/{ground.uid}"
    places = [
        f"{place}/{name}"
        for name in ("S.gpg-agent.extra", "S.gpg-agent")
        for place in (f"{runtime}/gnupg", f"{ground.home}/.gnupg")
    ]
    found = next((place for place in places if os.path.exists(place)), places[0])
    source = _socket("gpg-agent", found, "gpg-agent's socket", ground)
    folders = (Tmpfs(folder, _SMALL, "0700"), Tmpfs(f"{folder}/gnupg", _SMALL, "0700"))
    return _made("gpg-agent", (*folders, Bind(f"{folder}/gnupg/S.gpg-agent", source)))


def _dbus(ground: Ground) -> Shared:
    address = ground.environ.get("DBUS_SESSION_BUS_ADDRESS", "") or f"unix:path={_runtime(ground)}/bus"
    path = next((part[5:] for part in address.removeprefix("unix:").split(",") if part.startswith("path=")), "")
    if not path:
        raise Refused(message=f"--share dbus: {address} is no socket file", hint="only unix:path=… can be shared")
    inside = f"{RUN}/bus"
    source = _socket("dbus", path, "DBUS_SESSION_BUS_ADDRESS", ground)
    return _made("dbus", (Bind(inside, source),), ("DBUS_SESSION_BUS_ADDRESS", f"unix:path={inside}"))


def _display(ground: Ground) -> Shared:
    mounts: list[Mount] = []
    env: list[tuple[str, str]] = []
    wayland, display = ground.environ.get("WAYLAND_DISPLAY", ""), ground.environ.get("DISPLAY", "")
    if wayland:
        path = wayland if wayland.startswith("/") else f"{_runtime(ground)}/{wayland}"
        mounts.append(Bind(f"{RUN}/wayland", _socket("display", path, "WAYLAND_DISPLAY", ground)))
        env.append(("WAYLAND_DISPLAY", f"{RUN}/wayland"))
    if display.startswith(":"):
        number = display[1:].partition(".")[0]
        if not number.isdigit():
            raise Refused(message=f"--share display: DISPLAY is {display}", hint="a local one is :0")
        mounts.append(Bind(f"/tmp/.X11-unix/X{number}", _socket("display", f"/tmp/.X11-unix/X{number}", "DISPLAY", ground)))
        env.append(("DISPLAY", display))
        rights = ground.environ.get("XAUTHORITY") or f"{ground.home}/.Xauthority"
        if os.path.isfile(rights) and not _is_untrusted(os.path.realpath(rights), ground):
            mounts.append(Bind(f"{RUN}/xauthority", os.path.realpath(rights)))
            env.append(("XAUTHORITY", f"{RUN}/xauthority"))
    if not mounts:
        raise Refused(message="--share display: neither WAYLAND_DISPLAY nor a local DISPLAY is set")
    return _made("display", tuple(mounts), *env)


def _docker(ground: Ground) -> Shared:
    named = ground.environ.get("DOCKER_HOST", "") or "unix:///var/run/docker.sock"
    if not named.startswith("unix://"):
        raise Refused(message=f"--share docker: DOCKER_HOST is {named}", hint="only a unix:// socket can be shared")
    inside = f"{RUN}/docker.sock"
    source = _socket("docker", named.removeprefix("unix://"), "the docker socket", ground)
    return _made("docker", (Bind(inside, source),), ("DOCKER_HOST", f"unix://{inside}"))


_MAKERS = {"ssh-agent": _ssh_agent, "gpg-agent": _gpg_agent, "dbus": _dbus, "display": _display, "docker": _docker}
_SMALL = 1 << 16


def _made(name: str, mounts: tuple[Mount, ...], *env: tuple[str, str]) -> Shared:
    return Shared(mounts, env, f"--share {name}: {WARNINGS[name]}")


def _runtime(ground: Ground) -> str:
    return ground.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{ground.uid}"


def _socket(name: str, path: str, what: str, ground: Ground) -> str:
    """Return the real path of a socket."""
    if not path:
        raise Refused(message=f"--share {name}: {what} is not set")
    real = os.path.realpath(path)
    try:
        is_socket = stat.S_ISSOCK(os.stat(real).st_mode)
    except OSError as error:
        raise Refused(message=f"--share {name}: {what}, {path}: {error.strerror}") from None
    if not is_socket:
        raise Refused(message=f"--share {name}: {what}, {path}, is no socket")
    if _is_untrusted(real, ground):
        raise Refused(message=f"--share {name}: {path} lies where an agent can write")
    return real


def _is_untrusted(real: str, ground: Ground) -> bool:
    return any(is_below(real, place) for place in ground.untrusted)
