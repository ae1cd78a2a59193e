"""Checkpoints: many new files against `cp -a`, with and without reflinks, a few changes among many files, a rollback."""

import gc
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_dev.checkpoint import checkpoint_store, rollback
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession
from benchmarks import measure
from benchmarks.measure import Row, Section, Subject
from benchmarks.process import output
from benchmarks.working_directory import WorkingDirectory

TITLE = "Checkpoints"
FEW = 50.0  # ms for ten changed files
_CLONED = 100.0  # ms for all new files, where blocks can be shared
_OURS = "a checkpoint"
_DISK = 4 << 30
_NEW, _SIZE = 5000, 50_000  # files and bytes of each: 250 MB
_MANY, _CHANGED = 10_000, 10
_CYCLES = 100_000  # objects between garbage collections, as in the process that takes checkpoints
_OLD = 0.05  # seconds: younger changes are compared again


class _World:
    """An ended session with some files in its upper layer."""

    def __init__(self, folder: Path, files: int, size: int) -> None:
        self.session = store.Session(folder.name, str(folder))
        self.upper = folder / "roots" / "0" / "upper"
        lower = folder / "lower"
        lower.mkdir(parents=True)
        self.record: store.Record = {**store.BLANK, "state": store.WAITING, "root": str(lower), "roots": [str(lower)]}
        self.paths = [self.upper / f"d{number // 100}" / f"f{number}" for number in range(files)]
        data = os.urandom(size)
        for number, path in enumerate(self.paths):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(number.to_bytes(8, "big") + data)
        store.write_record(self.session, self.record)
        self._edits = itertools.count()

    def edit(self) -> None:
        for path in self.paths[:: _MANY // _CHANGED]:
            with path.open("a") as file:
                file.write(f"{next(self._edits)}\n")
        time.sleep(_OLD)

    def take(self) -> float:
        since = time.perf_counter()
        checkpoint_store.take_checkpoint(self.session, self.record, checkpoint_store.MANUAL)
        return (time.perf_counter() - since) * 1000


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure in this process: checkpoints are taken by a running process."""
    usual = gc.get_threshold()
    gc.set_threshold(_CYCLES)
    try:
        return _new(workdir.folder / "new"), *_shared(workdir.folder), _few(workdir.folder / "few")
    finally:
        gc.set_threshold(*usual)


def _new(folder: Path) -> Section:
    found = _by_both(folder, "cp -a", ())
    plain, ours = found.values()
    ratio = measure.ratio(ours, plain)
    rows = (Row("cp -a", measure.spread(plain)), Row(_OURS, measure.spread(ours), "cp -a", ratio, target=1.0))
    return Section(
        f"{TITLE}: new files",
        f"{_NEW:,} files, {_NEW * _SIZE // 10**6} MB, copied into the content pool.",
        rows,
        (measure.fastest(found, "cp -a"),),
    )


def _shared(folder: Path) -> Iterator[Section]:
    """Measure the same with shared blocks; only as root, since others may not mount."""
    for kind in ("xfs", "btrfs") if os.getuid() == 0 else ():
        if shutil.which(f"mkfs.{kind}") is None:
            continue
        with _mounted(kind, folder) as mount_point:
            name = "cp -a --reflink=always"
            found = _by_both(mount_point / "new", name, ("--reflink=always",))
        plain, ours = found.values()
        ratio = measure.ratio(ours, plain)
        rows = (Row(name, measure.spread(plain)), Row(_OURS, measure.spread(ours), name, ratio, limit=_CLONED))
        about = f"The same files on {kind}, on a loop device. Reasons: docs/decisions/0029-many-new-files.md."
        yield Section(f"{TITLE}: new files, reflinks on {kind}", about, rows, (measure.fastest(found, name),))


def _by_both(folder: Path, name: str, options: tuple[str, ...]) -> measure.Figures:
    """Return the times of `cp -a` with options, and of a checkpoint.

    Nothing is removed between rounds: ext4 takes three times as long while recently freed inodes are reused.
    """
    world, numbers = _World(folder, _NEW, _SIZE), itertools.count()

    def taken() -> dict[str, float]:
        took = world.take()
        (folder / "checkpoints").rename(folder / f"taken-{next(numbers)}")
        return {"time": took}

    def copied() -> dict[str, float]:
        since = time.perf_counter()
        subprocess.run(("cp", "-a", *options, world.upper, folder / f"copy-{next(numbers)}"), check=True)
        return {"time": (time.perf_counter() - since) * 1000}

    found = measure.in_turns((Subject(name, copied), Subject(_OURS, taken)), measure.rounds(6), warm_up=1)
    shutil.rmtree(folder)
    return {name: figures["time"] for name, figures in found.items()}


@contextmanager
def _mounted(kind: str, folder: Path) -> Iterator[Path]:
    """Yield the mount point of a new file system."""
    image, mount_point = folder / f"{kind}.img", folder / kind
    mount_point.mkdir()
    with image.open("wb") as file:
        file.truncate(_DISK)
    output((f"mkfs.{kind}", "-q", str(image)), dict(os.environ))
    output(("mount", "-o", "loop", str(image), str(mount_point)), dict(os.environ))
    try:
        yield mount_point
    finally:
        output(("umount", str(mount_point)), dict(os.environ))
        image.unlink()


def _few(folder: Path) -> Section:
    world = _World(folder, _MANY, 1000)
    time.sleep(_OLD)
    world.take()
    number = checkpoint_store.list_checkpoints(world.session)[-1].number

    def taken() -> dict[str, float]:
        world.edit()
        return {"time": world.take()}

    def back() -> dict[str, float]:
        one = ListedSession(world.session, world.record, store.WAITING)
        since = time.perf_counter()
        done = rollback.roll_back_ended(one, number)
        took = (time.perf_counter() - since) * 1000
        if len(done.paths) != _CHANGED:
            raise AssertionError(done.paths)
        time.sleep(_OLD)
        return {"time": took}

    count = measure.rounds(3)
    found = measure.in_turns((Subject("a checkpoint", taken), Subject("a rollback", back)), count)
    rows = tuple(Row(name, measure.spread(figures["time"]), limit=FEW) for name, figures in found.items())
    fastest = ", ".join(f"{name} {min(figures['time']):.1f} ms" for name, figures in found.items())
    about = (
        f"{_CHANGED} files of {_MANY:,} changed. A rollback takes a checkpoint first, and verifies the contents that it restores."
    )
    return Section(f"{TITLE}: few changes", about, rows, (f"The fastest round of each: {fastest}.",))
