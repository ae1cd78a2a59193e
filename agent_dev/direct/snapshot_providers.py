"""Take a snapshot of a directory: by btrfs, snapper, reflinks or a plain copy."""

import fcntl
import os
import struct
import subprocess

from agent_dev.errors import CannotStart
from agent_dev.fs import copytree, walk
from agent_dev.fs.snapshot_names import _SUBVOLUME, snapshot_name
from agent_dev.linux import programs
from agent_dev.value import Value

BTRFS, SNAPPER, REFLINK, COPY = "btrfs", "snapper", "reflink", "copy"
PROVIDERS = (BTRFS, SNAPPER, REFLINK, COPY)
_SNAP_CREATE_V2 = 0x50009417
_READ_ONLY = 2
_ARGUMENTS = struct.Struct("=qQQ32s4040s")  # btrfs_ioctl_vol_args_v2


class Snapshot(Value):
    """A snapshot: its provider, its id there, and the directory that holds it."""

    provider: str
    id: str
    path: str
    problems: tuple[str, ...] = ()


class SnapshotSpec(Value):
    """The snapshot to take: the directory, a new folder for a copy, a name, and the user's environment."""

    root: str
    folder: str
    name: str
    environ: dict[str, str]
    untrusted: tuple[str, ...] = ()


def take_snapshot(spec: SnapshotSpec, provider: str = "") -> Snapshot:
    """Take a snapshot with a provider, or with the best available. Raises CannotStart: nothing may start without one."""
    if provider and provider not in PROVIDERS:
        raise CannotStart(message=f"unknown snapshot provider {provider}", hint=f"providers: {', '.join(PROVIDERS)}")
    reasons = []
    for name in (provider,) if provider else (BTRFS, COPY):
        try:
            return {BTRFS: _btrfs, SNAPPER: _snapper, REFLINK: _reflink, COPY: _copy}[name](spec)
        except OSError as error:
            reasons.append(f"{name}: {error.strerror or error}")
    raise CannotStart(
        message=f"cannot take a snapshot of {spec.root} ({'; '.join(reasons)}); nothing was started",
        hint="fix the cause, or run without --direct",
    )


def _btrfs(spec: SnapshotSpec) -> Snapshot:
    """Take a read-only snapshot of a subvolume, next to it or, if it is a mount point, inside it."""
    status = os.stat(spec.root)
    if status.st_ino != _SUBVOLUME or _mount(spec.root)[1] != "btrfs":
        raise OSError(22, "it is not a btrfs subvolume")
    for found in walk.walk(spec.root, attributes=False):
        if found.entry.inode == _SUBVOLUME and found.entry.type == "dir":
            raise OSError(22, f"it contains the subvolume {os.fsdecode(found.path)}, which a snapshot omits")
    parent = os.path.dirname(spec.root)
    is_sibling = _mount(parent) == _mount(spec.root) and os.access(parent, os.W_OK)
    path = f"{parent if is_sibling else spec.root}/{snapshot_name(spec.name)}"
    source, folder = (os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for one in (spec.root, os.path.dirname(path)))
    try:
        argv = bytearray(_ARGUMENTS.pack(source, 0, _READ_ONLY, b"", os.fsencode(os.path.basename(path))))
        fcntl.ioctl(folder, _SNAP_CREATE_V2, argv)
        os.fsync(folder)
    finally:
        os.close(source)
        os.close(folder)
    return Snapshot(BTRFS, os.path.basename(path), path)


def _mount(path: str) -> tuple[str, str]:
    """Return the mount point of a path and the type of its file system."""
    best, kind = "", ""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            before, _, after = line.partition(b" - ")
            point = os.fsdecode(before.split()[4].decode("unicode_escape").encode("latin-1"))
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                best, kind = point, after.split()[0].decode()
    return best, kind


def _snapper(spec: SnapshotSpec) -> Snapshot:
    """Take the first snapshot of a pair with snapper's configuration for exactly this directory."""
    command, config = _find_config(spec)
    number = _create(command, config, ("--type", "pre"), spec)
    return Snapshot(SNAPPER, f"{config} {number}", f"{spec.root}/.snapshots/{number}/snapshot")


def take_post_snapshot(first: Snapshot, spec: SnapshotSpec) -> str:
    """Take the second snapshot of a pair after the run; return its id, "" if the provider has no pairs. Raises OSError."""
    if first.provider != SNAPPER:
        return ""
    command, config = _find_config(spec)
    return f"{config} {_create(command, config, ('--type', 'post', '--pre-number', first.id.rpartition(' ')[2]), spec)}"


def _find_config(spec: SnapshotSpec) -> tuple[tuple[str, ...], str]:
    """Return the snapper command and the name of its configuration. Raises OSError."""
    program = programs.find_program("snapper", spec.environ, spec.untrusted)
    if program is None:
        raise OSError(2, "snapper is not installed")
    commands: tuple[tuple[str, ...], ...] = ((program,), (program, "--no-dbus"))
    for command in commands:
        config = _config_of(command, spec)
        if config:
            return command, config
    raise OSError(2, "snapper has no configuration for exactly this directory")


def _create(command: tuple[str, ...], config: str, kind: tuple[str, ...], spec: SnapshotSpec) -> str:
    argv = (*command, "-c", config, "create", *kind, "--print-number", "--cleanup-algorithm", "number")
    return _run((*argv, "--description", f"agent-dev {spec.name}"), spec.environ).strip()


def _config_of(command: tuple[str, ...], spec: SnapshotSpec) -> str:
    try:
        rows = [line.split("|") for line in _run((*command, "list-configs"), spec.environ).splitlines()]
    except OSError:
        return ""
    return next((row[0].strip() for row in rows if len(row) == 2 and row[1].strip() == spec.root), "")


def _run(argv: tuple[str, ...], environ: dict[str, str]) -> str:
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", errors="replace", check=False, cwd="/", env=environ)
    if done.returncode:
        raise OSError(5, done.stderr.strip() or f"{argv[0]} exited with status {done.returncode}")
    return done.stdout


def _copy(spec: SnapshotSpec) -> Snapshot:
    """Copy everything except the git directory, with reflinks if possible."""
    path = f"{spec.folder}/tree"
    os.mkdir(path, 0o700)
    copier, problems = copytree.copy_tree(spec.root, path, skip=(b".git",), is_exact=True)
    provider = REFLINK if copier.cloned and not copier.copied else COPY
    return Snapshot(provider, spec.name, path, problems)


def _reflink(spec: SnapshotSpec) -> Snapshot:
    found = _copy(spec)
    if found.provider != REFLINK and next(walk.walk(found.path, attributes=False), None) is not None:
        raise OSError(95, "the state directory and the repository are not on one file system with reflinks")
    return found
