"""Find out whether this machine has the requirements of rootless podman in the sandbox."""

import _socket
import os

from agent_dev.sandbox.plan import SYSTEM_PATH

TUN = "/dev/net/tun"
REMEDY = "install podman, crun and slirp4netns: sudo apt install podman crun slirp4netns"
_HELPERS = ("slirp4netns", "pasta")  # programs that connect a container to the network, in order of preference
_LOOPBACK = "lo"
_PERSISTENT, _MULTI_QUEUE = 0x0800, 0x0100  # flags of a tun interface: another process can be attached to it
_POLICY = b'{"default": [{"type": "insecureAcceptAnything"}]}\n'  # podman's default
_MAX_SIZE = 1 << 20


def find_system_program(name: str) -> str:
    """Return the path of a program in the system's directories, which every sandbox shows; "" if there is none."""
    return next((path for folder in SYSTEM_PATH if os.access(path := f"{folder}/{name}", os.X_OK)), "")


def missing_programs() -> tuple[str, ...]:
    """Return the required programs that are not installed."""
    return tuple(name for name in ("podman", "crun") if not find_system_program(name))


def network_helper() -> str:
    """Return the program that connects containers to the network of a sandbox; "" if none is installed."""
    return next(filter(find_system_program, _HELPERS), "")


def network_problem(net: str) -> str:
    """Return why containers cannot have networks of their own; "" if they can. `net`: the sandbox's."""
    if not network_helper():
        return "slirp4netns is not installed"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"you may not open {TUN}"
    interface = attachable_interface() if net == "host" else ""
    return f"the agent could attach to the interface {interface} of this machine: use another `net`" if interface else ""


def attachable_interface(interfaces: "list[tuple[int, str]] | None" = None, folder: str = "/sys/class/net") -> str:
    """Return the name of an interface of this network namespace to which a process of the user might be attached; "" if none.

    `interfaces`: index and name of each. One that `folder` does not show counts, because its kind is unknown: sysfs shows the
    namespace in which it was mounted.
    """
    for index, name in _socket.if_nameindex() if interfaces is None else interfaces:
        if name != _LOOPBACK and _may_be_attached(f"{folder}/{name}", index):
            return name
    return ""


def _may_be_attached(path: str, index: int) -> bool:
    if _read(f"{path}/ifindex") != str(index):
        return True
    flags = _read(f"{path}/tun_flags")
    return flags != "" and bool(int(flags, 16) & (_PERSISTENT | _MULTI_QUEUE))


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""  # tun interfaces alone have flags


def host_configuration(folder: str = "/etc/containers") -> tuple[tuple[str, bytes], ...]:
    """Return the files of /etc for podman: the host's rules about images and registries, which hold no credentials."""
    names = ["policy.json", "registries.conf"]
    try:
        names += (f"registries.conf.d/{name}" for name in sorted(os.listdir(f"{folder}/registries.conf.d")))
    except OSError:
        pass  # it is optional
    found = {"policy.json": _POLICY}
    for name in names:
        try:
            with open(f"{folder}/{name}", "rb", 0) as file:
                found[name] = file.read(_MAX_SIZE)
        except OSError:
            continue
    return tuple((f"containers/{name}", data) for name, data in found.items())
