"""A journal that is damaged in any way: recovered to all before or all after, or stopped with nothing changed; never wrong."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.errors import RecoveryRequired
from agent_dev.merge import undo as undoing
from agent_dev.merge.engine import pending
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine.journal_codec import CorruptJournalError, read
from tests.faults.test_kill_everywhere import World, world
from tests.harness import faults, trees

FLIPS = int(os.environ.get("AGENT_DEV_TEST_FLIPS", "120"))  # of each interrupted journal, spread over all its lines
POINTS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.95)  # of the changes of a deed: killed before, amid and after its operations


def journal_of(one: World) -> Path:
    (merge_id,) = pending.listed(one.ended.store)
    return Path(one.ended.store.merges) / merge_id / "journal"


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return what tells any change below a folder."""
    statuses = {str(path): path.lstat() for path in folder.rglob("*")}
    return {path: (one.st_ino, one.st_mode, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for path, one in statuses.items()}


def long_history(one: World) -> None:
    """Merge what has a twin, begin an undo that is driven back, put something into a directory that came as a whole, edit."""
    twin = one.ended.real.with_name("twin")
    os.link(one.ended.real / "edited", twin)
    one.merge()
    twin.unlink()
    assert faults.killed_at(40, one.undo)
    one.recover()
    (one.ended.real / "fresh/deep/mine").write_bytes(b"the user's, since")
    (one.ended.real / "edited").write_bytes(b"the user's, since\n" + trees.read(one.ended.real)[b"edited"].content)


def undo(one: World) -> None:
    """Take all back, also of what the user has changed since."""
    undoing.undo(one.here, "", one.said.append, is_three_way=True)


Deed = tuple[Callable[[World], None], Callable[[World], None]]  # what comes before, and what is killed
DEEDS: dict[str, Deed] = {"merge": (lambda _: None, World.merge), "undo": (long_history, undo)}


def how(deed: Deed) -> tuple[int, tuple[trees.Tree, trees.Tree]]:
    """Return how many changes a deed makes, and the trees before and after it."""
    prepare, act = deed
    with world() as one:
        prepare(one)
        before = trees.read(one.ended.real)
        count = faults.counted(lambda: act(one))
        return count, (before, trees.read(one.ended.real))


def recover(one: World) -> bool:
    """Recover; return whether it was stopped, and then check that nothing at all was changed."""
    before = snapshot(one.ended.real), snapshot(one.ended.upper)
    try:
        one.recover()
    except RecoveryRequired:
        assert (snapshot(one.ended.real), snapshot(one.ended.upper)) == before
        return True
    return False


def damages(data: bytes, seed: int) -> list[bytes]:
    """Return damaged copies: bits flipped, cut off, lines doubled, dropped and swapped."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    found = []
    lines = data.splitlines(keepends=True)
    for _ in range(FLIPS):
        number = chance.randrange(len(lines))  # every line as often: some are short
        at = len(b"".join(lines[:number])) + chance.randrange(len(lines[number]))
        found.append(data[:at] + bytes((data[at] ^ chance.choice((1, 2, 0x20, 0x80, 0xFF)),)) + data[at + 1 :])
    found += [data[: chance.randrange(len(data))] for _ in range(FLIPS // 2)]
    for number in range(len(lines)):
        found.append(b"".join(lines[:number] + lines[number + 1 :]))
        found.append(b"".join([*lines[: number + 1], lines[number], *lines[number + 1 :]]))
        found.append(b"".join([*lines[:number], *lines[number + 1 :], lines[number]]))
    return [one for one in found if one != data]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("deed", DEEDS)
def test_a_damaged_journal_is_recovered_or_stops_and_is_never_wrong(
    deed: str, point: float, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = DEEDS[deed]
    count, sides = how(DEEDS[deed])
    number = int(count * point)
    with world() as one:
        prepare(one)
        assert faults.killed_at(number, lambda: act(one))
        data = journal_of(one).read_bytes()
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  (shown when it fails)
    ways = damages(data, seed)
    # A cut-off part of a line counts as not written; that is all that may be taken for a sound journal.
    sound = [way for way in ways if _is_sound(way)]
    for way in sound:
        assert data.startswith(way.rpartition(b"\n")[0]) or way in data or _has_lines_of(way, data), way[-200:]
    record_property("points", len(ways))
    for way in (*sound[:12], *[way for way in ways if not _is_sound(way)][:12]):
        with world() as one:
            prepare(one)
            faults.killed_at(number, lambda one=one: act(one))  # type: ignore[misc]
            path = journal_of(one)
            # The lines of this very journal, damaged the same way: ids and inodes differ from one world to the next.
            path.write_bytes(_same_damage(way, data, path.read_bytes()))
            if not recover(one):
                assert trees.read(one.ended.real) in sides


def test_every_kind_of_record_is_among_those_that_are_damaged() -> None:
    prepare, act = DEEDS["undo"]
    with world() as one:
        prepare(one)
        act(one)
        (journal,) = Path(one.ended.store.merges).glob("*/journal")
        kinds = {json.loads(line.partition(b" ")[2])["record"] for line in journal.read_bytes().splitlines()}

    assert kinds == set(records._RECORDS)


def _is_sound(data: bytes) -> bool:
    try:
        read(data)
    except CorruptJournalError:
        return False
    return True


def _has_lines_of(way: bytes, data: bytes) -> bool:
    return set(way.splitlines()[:-1]) <= set(data.splitlines())


def _same_damage(way: bytes, data: bytes, own: bytes) -> bytes:
    """Damage another journal like this one: cut at the same share, or with the same byte flipped."""
    if len(way) < len(data):
        return own[: len(own) * len(way) // len(data)]
    at = next((place for place, (a, b) in enumerate(zip(way, data, strict=False)) if a != b), len(data) - 1)
    at = min(at, len(own) - 1)
    return own[:at] + bytes((own[at] ^ 0x20,)) + own[at + 1 :]
