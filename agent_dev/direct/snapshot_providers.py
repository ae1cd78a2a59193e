"""Snapshots of a directory before an agent works in it: a btrfs snapshot, one of snapper's, a copy by reflinks, a plain copy."""

import fcntl
import os
import struct
import subprocess

from agent_dev.errors import CannotStart
from agent_dev.fs import copytree as copies
from agent_dev.fs import walk as scan
from agent_dev.sandbox import machine
from agent_dev.value import Value

BTRFS, SNAPPER, REFLINK, COPY = "btrfs", "snapper", "reflink", "copy"
PROVIDERS = (BTRFS, SNAPPER, REFLINK, COPY)
_SUBVOLUME = 256  # the inode of every subvolume's root
_SNAP_CREATE_V2 = 0x50009417
_READ_ONLY = 2
_ARGUMENTS = struct.Struct("=qQQ32s4040s")  # btrfs_ioctl_vol_args_v2


class Snapshot(Value):
    """Where what was is kept: by whom, its id there, and the directory that holds it."""

    provider: str
    id: str
    path: str
    problems: tuple[str, ...] = ()


class Wish(Value):
    """What to take: the directory, a new folder of ours for a copy, a name, and the user's environment."""

    root: str
    folder: str
    name: str
    environ: dict[str, str]
    untrusted: tuple[str, ...] = ()


def take(wish: Wish, provider: str = "") -> Snapshot:
    """Take a snapshot by a provider, or by the best that can. Raises CannotStart: without one nothing may be started."""
    if provider and provider not in PROVIDERS:
        raise CannotStart(message=f"no provider of snapshots {provider}", hint=", ".join(PROVIDERS))
    why = []
    for name in (provider,) if provider else (BTRFS, COPY):
        try:
            return {BTRFS: _btrfs, SNAPPER: _snapper, REFLINK: _reflink, COPY: _copy}[name](wish)
        except OSError as error:
            why.append(f"{name}: {error.strerror or error}")
    raise CannotStart(message=f"no snapshot of {wish.root} could be taken ({'; '.join(why)})", hint="nothing was started")


def _btrfs(wish: Wish) -> Snapshot:
    """Snapshot a directory that is itself a subvolume, read-only, beside it or, where it is a mount point, inside it."""
    status = os.stat(wish.root)
    if status.st_ino != _SUBVOLUME or _mount(wish.root)[1] != "btrfs":
        raise OSError(22, "it is no btrfs subvolume of its own")
    for found in scan.walk(wish.root, attributes=False):
        if found.entry.inode == _SUBVOLUME and found.entry.type == "dir":
            raise OSError(22, f"{os.fsdecode(found.path)} in it is a subvolume of its own, which a snapshot leaves out")
    parent = os.path.dirname(wish.root)
    is_beside = _mount(parent) == _mount(wish.root) and os.access(parent, os.W_OK)
    path = f"{parent if is_beside else wish.root}/{name_of(wish.name)}"
    source, folder = (os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for one in (wish.root, os.path.dirname(path)))
    try:
        words = bytearray(_ARGUMENTS.pack(source, 0, _READ_ONLY, b"", os.fsencode(os.path.basename(path))))
        fcntl.ioctl(folder, _SNAP_CREATE_V2, words)
        os.fsync(folder)
    finally:
        os.close(source)
        os.close(folder)
    return Snapshot(BTRFS, os.path.basename(path), path)


def name_of(name: str) -> str:
    """Return what a snapshot beside the directory or in it is called."""
    return f".agent-dev-snapshot.{name}"


def within(root: str) -> tuple[str, ...]:
    """Return the names in a directory that are snapshots of it, ours or snapper's."""
    own = tuple(name for name in os.listdir(root) if name.startswith(name_of("")))
    is_snapper = os.path.isdir(f"{root}/.snapshots") and os.stat(f"{root}/.snapshots").st_ino == _SUBVOLUME
    return (*own, ".snapshots") if is_snapper else own


def _mount(path: str) -> tuple[str, str]:
    """Return the mount that is nearest above a path, and the type of its file system."""
    best, kind = "", ""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            before, _, after = line.partition(b" - ")
            point = os.fsdecode(before.split()[4].decode("unicode_escape").encode("latin-1"))
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                best, kind = point, after.split()[0].decode()
    return best, kind


def _snapper(wish: Wish) -> Snapshot:
    """Have snapper take the first of a pair, by its configuration for exactly this directory."""
    way, config = _configured(wish)
    number = _create(way, config, ("--type", "pre"), wish)
    return Snapshot(SNAPPER, f"{config} {number}", f"{wish.root}/.snapshots/{number}/snapshot")


def pair(first: Snapshot, wish: Wish) -> str:
    """Take the second of a pair when the run is over; return its id, empty where snapshots have no pairs. Raises OSError."""
    if first.provider != SNAPPER:
        return ""
    way, config = _configured(wish)
    return f"{config} {_create(way, config, ('--type', 'post', '--pre-number', first.id.rpartition(' ')[2]), wish)}"


def _configured(wish: Wish) -> tuple[tuple[str, ...], str]:
    """Return how snapper is called, and the name of its configuration. Raises OSError."""
    program = machine.program("snapper", wish.environ, wish.untrusted)
    if program is None:
        raise OSError(2, "snapper is not installed")
    ways: tuple[tuple[str, ...], ...] = ((program,), (program, "--no-dbus"))
    for way in ways:
        config = _config_of(way, wish)
        if config:
            return way, config
    raise OSError(2, "snapper has no configuration for exactly this directory")


def _create(way: tuple[str, ...], config: str, kind: tuple[str, ...], wish: Wish) -> str:
    words = (*way, "-c", config, "create", *kind, "--print-number", "--cleanup-algorithm", "number")
    return _said((*words, "--description", f"agent-dev {wish.name}"), wish.environ).strip()


def _config_of(way: tuple[str, ...], wish: Wish) -> str:
    try:
        rows = [line.split("|") for line in _said((*way, "list-configs"), wish.environ).splitlines()]
    except OSError:
        return ""
    return next((row[0].strip() for row in rows if len(row) == 2 and row[1].strip() == wish.root), "")


def _said(words: tuple[str, ...], environ: dict[str, str]) -> str:
    done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False, cwd="/", env=environ)
    if done.returncode:
        raise OSError(5, done.stderr.strip() or f"{words[0]} ended with {done.returncode}")
    return done.stdout


def _copy(wish: Wish) -> Snapshot:
    """Copy all but the git directory, by reflinks where that works."""
    path = f"{wish.folder}/tree"
    os.mkdir(path, 0o700)
    copier, problems = copies.tree(wish.root, path, skip=(b".git",))
    provider = REFLINK if copier.cloned and not copier.copied else COPY
    return Snapshot(provider, wish.name, path, problems)


def _reflink(wish: Wish) -> Snapshot:
    found = _copy(wish)
    if found.provider != REFLINK and next(scan.walk(found.path, attributes=False), None) is not None:
        raise OSError(95, "the state directory and the repository share no file system with reflinks")
    return found
