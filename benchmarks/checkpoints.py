"""What checkpoints cost: many new files against `cp -a`, with and without reflinks, a few changes among many, a rollback."""

import gc
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import rollback
from agent_dev.session import store
from agent_dev.session.sessions import Listed
from benchmarks import measure
from benchmarks.ground import Ground
from benchmarks.measure import Row, Section, Subject
from benchmarks.process import output

TITLE = "Checkpoints"
FEW = 50.0  # ms for ten changed files
_CLONED = 100.0  # ms for all new files, where blocks can be shared
_OURS = "a checkpoint"
_DISK = 4 << 30
_NEW, _SIZE = 5000, 50_000  # files and bytes of each: 250 MB
_MANY, _CHANGED = 10_000, 10
_CYCLES = 100_000  # objects between two looks for cycles, as where a checkpoint is taken
_OLD = 0.05  # seconds: a change that is younger is looked at again


class _World:
    """An ended session with so many files in its upper."""

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
        store.write(self.session, self.record)
        self._edits = itertools.count()

    def edit(self) -> None:
        for path in self.paths[:: _MANY // _CHANGED]:
            with path.open("a") as file:
                file.write(f"{next(self._edits)}\n")
        time.sleep(_OLD)

    def take(self) -> float:
        since = time.perf_counter()
        checkpoints.take(self.session, self.record, checkpoints.MANUAL)
        return (time.perf_counter() - since) * 1000


def run(ground: Ground) -> tuple[Section, ...]:
    """Measure in this process: a checkpoint is taken by one that runs already."""
    usual = gc.get_threshold()
    gc.set_threshold(_CYCLES)
    try:
        return _new(ground.folder / "new"), *_shared(ground.folder), _few(ground.folder / "few")
    finally:
        gc.set_threshold(*usual)


def _new(folder: Path) -> Section:
    found = _by_both(folder, "cp -a", ())
    plain, ours = found.values()
    ratio = measure.ratio(ours, plain)
    rows = (Row("cp -a", measure.spread(plain)), Row(_OURS, measure.spread(ours), "cp -a", ratio, target=1.0))
    return Section(
        f"{TITLE}: new files",
        f"{_NEW:,} files, {_NEW * _SIZE // 10**6} MB, by content into the pool.",
        rows,
        (measure.fastest(found, "cp -a"),),
    )


def _shared(folder: Path) -> Iterator[Section]:
    """Measure the same where blocks can be shared; by root alone, who can mount."""
    for kind in ("xfs", "btrfs") if os.getuid() == 0 else ():
        if shutil.which(f"mkfs.{kind}") is None:
            continue
        with _mounted(kind, folder) as place:
            what = "cp -a --reflink=always"
            found = _by_both(place / "new", what, ("--reflink=always",))
        plain, ours = found.values()
        ratio = measure.ratio(ours, plain)
        rows = (Row(what, measure.spread(plain)), Row(_OURS, measure.spread(ours), what, ratio, limit=_CLONED))
        about = f"The same files on {kind}, on a loop device. Why: docs/decisions/0029-many-new-files.md."
        yield Section(f"{TITLE}: new files, reflinks on {kind}", about, rows, (measure.fastest(found, what),))


def _by_both(folder: Path, name: str, options: tuple[str, ...]) -> measure.Figures:
    """Return the times of `cp -a` with options, and of a checkpoint.

    Nothing is removed between rounds: ext4 takes three times as long where inodes were freed just now.
    """
    world, places = _World(folder, _NEW, _SIZE), itertools.count()

    def taken() -> dict[str, float]:
        took = world.take()
        (folder / "checkpoints").rename(folder / f"taken-{next(places)}")
        return {"time": took}

    def copied() -> dict[str, float]:
        since = time.perf_counter()
        subprocess.run(("cp", "-a", *options, world.upper, folder / f"copy-{next(places)}"), check=True)
        return {"time": (time.perf_counter() - since) * 1000}

    found = measure.in_turns((Subject(name, copied), Subject(_OURS, taken)), measure.rounds(6), warm_up=1)
    shutil.rmtree(folder)
    return {what: figures["time"] for what, figures in found.items()}


@contextmanager
def _mounted(kind: str, folder: Path) -> Iterator[Path]:
    """Yield where a new file system of some kind is mounted."""
    image, place = folder / f"{kind}.img", folder / kind
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(_DISK)
    output((f"mkfs.{kind}", "-q", str(image)), dict(os.environ))
    output(("mount", "-o", "loop", str(image), str(place)), dict(os.environ))
    try:
        yield place
    finally:
        output(("umount", str(place)), dict(os.environ))
        image.unlink()


def _few(folder: Path) -> Section:
    world = _World(folder, _MANY, 1000)
    time.sleep(_OLD)
    world.take()
    number = checkpoints.listed(world.session)[-1].number

    def taken() -> dict[str, float]:
        world.edit()
        return {"time": world.take()}

    def back() -> dict[str, float]:
        one = Listed(world.session, world.record, store.WAITING)
        since = time.perf_counter()
        done = rollback.roll_back(one, number)
        took = (time.perf_counter() - since) * 1000
        if len(done.paths) != _CHANGED:
            raise AssertionError(done.paths)
        time.sleep(_OLD)
        return {"time": took}

    count = measure.rounds(3)
    found = measure.in_turns((Subject("a checkpoint", taken), Subject("a rollback", back)), count)
    rows = tuple(Row(what, measure.spread(figures["time"]), limit=FEW) for what, figures in found.items())
    fastest = ", ".join(f"{what} {min(figures['time']):.1f} ms" for what, figures in found.items())
    about = f"{_CHANGED} files of {_MANY:,} changed; a rollback takes a checkpoint first, and reads what it writes."
    return Section(f"{TITLE}: few changes", about, rows, (f"The fastest round of each: {fastest}.",))
