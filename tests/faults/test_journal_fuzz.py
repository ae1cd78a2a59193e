"""Damage journals in any way: recovery restores the tree before or after, or stops without a change; it never misreads one."""

import io
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_dev.errors import RecoveryRequired
from agent_dev.merge import undo as undoing
from agent_dev.merge_engine import journal_codec, pending_marks
from agent_dev.merge_engine.journal_codec import CorruptJournalError, decode
from tests.faults import test_kill_everywhere as kill_everywhere
from tests.faults.test_kill_everywhere import World
from tests.harness import trees, users
from tests.harness.faults import faults
from tests.harness.scale import repeat
from tests.harness.trees import DIRECTORY, FILE, Node

FLIPS = repeat(120)  # per interrupted journal, spread over all its lines
POINTS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.95)  # fractions of a command's changes, to kill it before, during and after its operations


# A directory that denies its owner access: it is unlocked while its content is merged.
CLOSED = tuple({b"closed": Node(DIRECTORY, b"", 0o555), b"closed/in": Node(FILE, data, 0o644)} for data in (b"one\n", b"two\n"))


@contextmanager
def world() -> Iterator[World]:
    with kill_everywhere.world(more=(CLOSED[0], CLOSED[1])) as one:
        yield one


def journal_of(one: World) -> Path:
    (merge_id,) = pending_marks.unfinished_merges(one.ended.store)
    return Path(one.ended.store.merges) / merge_id / "journal"


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return inode, mode, size and times of everything below a directory: any change shows in them."""
    statuses = {str(path): path.lstat() for path in folder.rglob("*")}
    return {path: (one.st_ino, one.st_mode, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for path, one in statuses.items()}


def long_history(one: World) -> None:
    """Merge a hard-linked file, roll back a started undo, add a file to a directory that the merge created, and edit a file."""
    clone = one.ended.real.with_name("twin")
    os.link(one.ended.real / "edited", clone)
    one.merge()
    clone.unlink()
    assert faults.killed_at(40, one.undo)
    one.recover()
    (one.ended.real / "fresh/deep/mine").write_bytes(b"the user's, since")
    (one.ended.real / "edited").write_bytes(b"the user's, since\n" + trees.read(one.ended.real)[b"edited"].content)


def undo(one: World) -> None:
    """Undo the merge, including paths that the user has changed since."""
    undoing.undo(one.here, "", one.printed.append, is_three_way=True)


Action = tuple[Callable[[World], None], Callable[[World], None]]  # the preparation, and the command that is killed
ACTIONS: dict[str, Action] = {"merge": (lambda _: None, World.merge), "undo": (long_history, undo)}


def how(action: Action) -> tuple[int, tuple[trees.Tree, trees.Tree]]:
    """Return the number of changes that a command makes, and the trees before and after it."""
    prepare, act = action
    with world() as one:
        prepare(one)
        before = trees.read(one.ended.real)
        count = faults.count_changes(lambda: act(one))
        return count, (before, trees.read(one.ended.real))


def recover(one: World) -> bool:
    """Recover; return whether recovery stopped, and in that case assert that it changed nothing at all."""
    before = snapshot(one.ended.real), snapshot(one.ended.upper)
    try:
        one.recover()
    except RecoveryRequired:
        assert (snapshot(one.ended.real), snapshot(one.ended.upper)) == before
        return True
    return False


def damages(data: bytes, seed: int) -> list[bytes]:
    """Return damaged copies: with flipped bits, truncated, and with lines duplicated, dropped or moved to the end."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    found = []
    lines = data.splitlines(keepends=True)
    for _ in range(FLIPS):
        number = chance.randrange(len(lines))  # each line equally often, since some are short
        at = len(b"".join(lines[:number])) + chance.randrange(len(lines[number]))
        found.append(data[:at] + bytes((data[at] ^ chance.choice((1, 2, 0x20, 0x80, 0xFF)),)) + data[at + 1 :])
    found += [data[: chance.randrange(len(data))] for _ in range(FLIPS // 2)]
    for number in range(len(lines)):
        found.append(b"".join(lines[:number] + lines[number + 1 :]))
        found.append(b"".join([*lines[: number + 1], lines[number], *lines[number + 1 :]]))
        found.append(b"".join([*lines[:number], *lines[number + 1 :], lines[number]]))
    return [one for one in found if one != data]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_damaged_journal_is_recovered_or_refused_and_never_misread(
    action: str, point: float, record_property: Callable[[str, object], None]
) -> None:
    prepare, act = ACTIONS[action]
    count, sides = how(ACTIONS[action])
    number = int(count * point)
    with world() as one:
        prepare(one)
        assert faults.killed_at(number, lambda: act(one))
        data = journal_of(one).read_bytes()
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  (shown when it fails)
    ways = damages(data, seed)
    # A truncated line counts as not written; no other damaged journal may be taken for a sound one.
    sound = [way for way in ways if _is_sound(way)]
    for way in sound:
        assert data.startswith(way.rpartition(b"\n")[0]) or way in data or _has_lines_of(way, data), way[-200:]
    record_property("points", len(ways))
    for way in (*sound[:12], *[way for way in ways if not _is_sound(way)][:12]):
        with world() as one:
            prepare(one)
            faults.killed_at(number, lambda one=one: act(one))  # type: ignore[misc]
            path = journal_of(one)
            # Damage this journal's own lines in the same way: ids and inodes differ between worlds.
            path.write_bytes(_same_damage(way, data, path.read_bytes()))
            if not recover(one):
                assert trees.read(one.ended.real) in sides


def test_the_damaged_journals_cover_every_kind_of_record() -> None:
    def look() -> None:
        prepare, act = ACTIONS["undo"]
        with world() as one:
            prepare(one)
            act(one)
            (journal,) = Path(one.ended.store.merges).glob("*/journal")
            kinds = {json.loads(line.partition(b" ")[2])["record"] for line in journal.read_bytes().splitlines()}
        assert kinds == set(journal_codec._RECORDS)

    users.call_as_ordinary_user(look)  # no mode denies root access, and nothing is unlocked


@pytest.mark.parametrize("action", ACTIONS)
def test_a_journal_that_lost_its_records_leaves_no_directory_unlocked(action: str) -> None:
    prepare, act = ACTIONS[action]

    def cut() -> None:
        count, sides = how(ACTIONS[action])
        assert sum(_is_correct_without_records(number, prepare, act, sides) for number in range(1, count + 1, 3))

    users.call_as_ordinary_user(cut)


def _is_correct_without_records(
    number: int, prepare: Callable[[World], None], act: Callable[[World], None], sides: tuple[trees.Tree, trees.Tree]
) -> bool:
    """Kill a command, truncate its journal before the last unlocked directory, recover; return whether there was one."""
    with world() as one:
        prepare(one)
        if not faults.killed_at(number, lambda: act(one)) or not pending_marks.unfinished_merges(one.ended.store):
            return False
        path = journal_of(one)
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        opened = [at for at, line in enumerate(lines) if b'"opened"' in line]
        if not opened:
            return False
        path.write_bytes(b"".join(lines[: opened[-1]]))
        assert recover(one) or trees.read(one.ended.real) in sides
        return True


def _is_sound(data: bytes) -> bool:
    try:
        decode(io.BytesIO(data))
    except CorruptJournalError:
        return False
    return True


def _has_lines_of(way: bytes, data: bytes) -> bool:
    return set(way.splitlines()[:-1]) <= set(data.splitlines())


def _same_damage(way: bytes, data: bytes, own: bytes) -> bytes:
    """Damage another journal in the same way: truncated at the same fraction, or with the same byte flipped."""
    if len(way) < len(data):
        return own[: len(own) * len(way) // len(data)]
    at = next((place for place, (a, b) in enumerate(zip(way, data, strict=False)) if a != b), len(data) - 1)
    at = min(at, len(own) - 1)
    return own[:at] + bytes((own[at] ^ 0x20,)) + own[at + 1 :]
