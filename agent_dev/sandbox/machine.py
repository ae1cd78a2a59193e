"""Facts about this machine and its user, as input for a plan."""

import os
import pwd

from agent_dev.config.profile import GATEWAY_NETS
from agent_dev.errors import CannotStart
from agent_dev.fs import cache
from agent_dev.linux.programs import find_program
from agent_dev.linux.users import home_directory
from agent_dev.paths import is_below
from agent_dev.sandbox import etc
from agent_dev.sandbox.bwrap import BY_BWRAP, BY_LAUNCHER, HAS_OVERLAY
from agent_dev.sandbox.plan import INSIDE_UID, INSIDE_USER, Machine

_SYSTEM = ("/usr", "/opt", "/nix", "/gnu")
_LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def inspect_machine(
    environ: dict[str, str], untrusted: tuple[str, ...], net: str = "host", etc_files: tuple[tuple[str, bytes], ...] = ()
) -> Machine:
    """Return the facts; no program is taken from an `untrusted` path. Raises CannotStart without bubblewrap or a home.

    `etc_files`: further generated files of /etc.
    """
    user_home = home_directory(environ)
    links, system = _top_level()
    user, shell = _account(environ)
    program = find_bwrap(environ, untrusted)
    version = bwrap_version(program, environ)
    _check_overlay_mode(environ, version)
    return Machine(
        uid=os.getuid(),
        gid=os.getgid(),
        user=user,
        home=user_home,
        shell=shell,
        bwrap=program,
        bwrap_version=version,
        links=links,
        system=system,
        etc=etc.etc_mounts(
            environ,
            (*_users(user, user_home, shell), *(etc.own_network_files() if net in GATEWAY_NETS else ()), *etc_files),
        ),
    )


def bwrap_version(path: str, environ: dict[str, str]) -> tuple[int, int, int]:
    """Return bubblewrap's version, cached per file: running it to ask costs as much as starting it."""
    status = os.stat(path)
    key = f"{path}:{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
    cache_file = f"{cache.folder(environ)}/bwrap.json"
    cached = cache.read(cache_file)
    match cached.get(key):
        case [int(major), int(minor), int(patch)]:
            return (major, minor, patch)
        case _:  # not cached
            pass
    version = _run_version(path)
    cache.write(cache_file, {**cached, key: list(version)})
    return version


def _run_version(path: str) -> tuple[int, int, int]:
    output, output_w = os.pipe()
    pid = os.posix_spawn(path, ("bwrap", "--version"), {}, file_actions=[(os.POSIX_SPAWN_DUP2, output_w, 1)])
    os.close(output_w)
    with os.fdopen(output, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    os.waitpid(pid, 0)
    numbers = [int(part) for part in text.strip().removeprefix("bubblewrap ").split(".")[:3] if part.isdigit()]
    if len(numbers) < 2:
        raise CannotStart(message=f"{path} reports no version: it is not bubblewrap")
    return (numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0)


def find_bwrap(environ: dict[str, str], untrusted: tuple[str, ...] = ()) -> str:
    """Return the absolute path of bubblewrap: AGENT_DEV_BWRAP, otherwise the first on PATH."""
    configured = environ.get("AGENT_DEV_BWRAP")
    if configured:
        if not os.path.isfile(configured) or not os.access(configured, os.X_OK):
            reason = "cannot be executed" if os.path.isfile(configured) else "is not a file"
            raise CannotStart(
                message=f"AGENT_DEV_BWRAP={configured} {reason}", hint="unset it, or set it to the path of bubblewrap"
            )
        return os.path.abspath(configured)
    found = find_program("bwrap", environ, untrusted)
    if found is None:
        raise _no_bwrap(environ, untrusted)
    return found


def _no_bwrap(environ: dict[str, str], untrusted: tuple[str, ...]) -> CannotStart:
    installed = find_program("bwrap", environ)
    if installed is None:
        return CannotStart(message="bubblewrap (bwrap) is not installed", hint=install_hint("bubblewrap"))
    paths = (installed, os.path.realpath(installed))
    writable = next(folder for folder in untrusted if any(is_below(path, folder) for path in paths))
    return CannotStart(message=f"{installed} cannot be trusted: an agent could write to {writable}", hint="use another directory")


def _check_overlay_mode(environ: dict[str, str], version: tuple[int, int, int]) -> None:
    mode = environ.get("AGENT_DEV_OVERLAY")
    if mode and mode not in (BY_BWRAP, BY_LAUNCHER):
        raise CannotStart(message=f"AGENT_DEV_OVERLAY={mode}: must be {BY_LAUNCHER} or {BY_BWRAP}", hint="unset it")
    if mode == BY_BWRAP and version < HAS_OVERLAY:
        raise CannotStart(
            message="AGENT_DEV_OVERLAY=bwrap: this bubblewrap does not support overlays", hint="install bubblewrap 0.11 or newer"
        )


def install_hint(package: str) -> str:
    """Return how to install a package of the distribution."""
    if os.path.exists("/usr/bin/dnf"):
        return f"sudo dnf install {package}"
    return f"sudo apt install {package}" if os.path.exists("/usr/bin/apt-get") else f"install your distribution's {package}"


def _top_level() -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    links: list[tuple[str, str]] = []
    system = [path for path in _SYSTEM if os.path.isdir(path)]
    for path in _LINKED:
        try:
            links.append((path, os.readlink(path)))
        except FileNotFoundError:
            continue
        except OSError:
            system.append(path)  # a real directory: a distribution without merged /usr
    return tuple(links), tuple(system)


def _account(environ: dict[str, str]) -> tuple[str, str]:
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return environ.get("USER") or "user", "/bin/sh"
    shell = entry.pw_shell
    return entry.pw_name, shell if any(is_below(shell, prefix) for prefix in ("/bin", "/usr", "/sbin")) else "/bin/sh"


def _users(user: str, home: str, shell: str) -> tuple[tuple[str, bytes], ...]:
    """Return passwd and group with only root, the user and nobody: the agent need not know other accounts."""
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        uid, gid, user = INSIDE_UID, INSIDE_UID, INSIDE_USER
    accounts = {0: ("root", 0, "/root", "/bin/sh"), 65534: ("nobody", 65534, "/nonexistent", "/usr/sbin/nologin")}
    accounts[uid] = (user, gid, home, shell)
    passwd = "".join(
        f"{name}:x:{number}:{group}::{home_dir}:{login_shell}\n"
        for number, (name, group, home_dir, login_shell) in accounts.items()
    )
    groups = {0: "root", 65534: "nogroup"} | {gid: "root" if gid == 0 else user}
    group = "".join(f"{name}:x:{number}:\n" for number, name in groups.items())
    return (("passwd", os.fsencode(passwd)), ("group", os.fsencode(group)))


# The vendor named by the firmware, in these files (systemd: src/basic/virt.c, cloud-init: ds-identify).
_FIRMWARE = ("sys_vendor", "chassis_asset_tag", "bios_vendor", "product_name", "board_vendor")
_CLOUDS = {
    "Amazon": "Amazon EC2",
    "Google": "Google Cloud",
    "7783-7084-3265-9085-8269-3286-77": "Azure",
    "OracleCloud": "Oracle Cloud",
    "Alibaba": "Alibaba Cloud",
    "Tencent": "Tencent Cloud",
    "DigitalOcean": "DigitalOcean",
    "Hetzner": "Hetzner",
    "Scaleway": "Scaleway",
    "Vultr": "Vultr",
    "Akamai": "Akamai",
    "Linode": "Akamai",
    "Exoscale": "Exoscale",
    "UpCloud": "UpCloud",
    "OpenStack": "OpenStack",
}
METADATA_WARNING = "an agent can get this machine's credentials from {}: 169.254.169.254, fd00:ec2::254"


def cloud_provider(folder: str = "/sys/class/dmi/id") -> str:
    """Return the name of the cloud that this machine runs in; "" if its firmware names none."""
    for name in _FIRMWARE:
        try:
            with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as file:
                text = file.read(256)
        except OSError:
            continue
        for vendor, cloud_name in _CLOUDS.items():
            if vendor in text:
                return cloud_name
    return ""
