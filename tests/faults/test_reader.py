"""What somebody who reads the tree sees while a merge, an undo or a redo runs: never nothing, never a part."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from agent_dev.merge import undo
from agent_dev.overlay.changes import FileType
from agent_dev.session.sessions import Here
from tests.harness import trees
from tests.harness.ended import ENVIRON, Ended
from tests.harness.reader import Watcher
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

MANY = 40
SORTS = {
    FILE: (Node(FILE, b"a" * 4096), Node(FILE, b"b" * 4096)),
    SYMLINK: (Node(SYMLINK, b"one", 0o777), Node(SYMLINK, b"other", 0o777)),
    DIRECTORY: (Node(DIRECTORY, b"", 0o755), Node(DIRECTORY, b"", 0o755)),
}


@contextmanager
def ended(before: Tree, after: Tree) -> Iterator[tuple[Ended, Here]]:
    with tempfile.TemporaryDirectory() as folder:
        one = Ended(Path(folder), before, trees.upper_of(before, after))
        os.close(one.session.lock)
        yield one, Here(one.store, str(one.real), str(one.real), ENVIRON)


def back_and_forth(one: Ended, here: Here, end: Tree) -> None:
    assert trees.read(one.real) == end
    for _ in range(2):
        undo.undo(here, "", lambda _: None)
        undo.redo(here, "", lambda _: None)
    assert trees.read(one.real) == end


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(SORTS, SORTS) if set(pair) != {DIRECTORY}])
def test_a_replaced_path_is_never_absent_in_a_merge_its_undo_and_its_redo(before: FileType, after: FileType) -> None:
    names = [b"x%d" % number for number in range(MANY)]
    old = dict.fromkeys(names, SORTS[before][0])
    new = dict.fromkeys(names, SORTS[after][1])
    with ended(old, new) as (one, here):
        watched = [os.path.join(os.fsencode(one.real), name) for name in names[20:24]]
        with Watcher(lambda: {os.fsdecode(place) for place in watched if not os.path.lexists(place)}) as watcher:
            one.merge_all()
            back_and_forth(one, here, new)

    assert watcher.seen == set()


def test_a_replaced_file_is_always_whole_in_a_merge_its_undo_and_its_redo() -> None:
    names = [b"x%d" % number for number in range(MANY)]
    old, new = (dict.fromkeys(names, SORTS[FILE][side]) for side in (0, 1))
    with ended(old, new) as (one, here):

        def look() -> set[str]:
            data = (one.real / "x10").read_bytes()
            return {f"{len(data)} {sorted(set(data))}"}

        with Watcher(look) as watcher:
            one.merge_all()
            back_and_forth(one, here, new)

    assert watcher.seen == {f"4096 {[ord(letter)]}" for letter in "ab"}


def test_no_name_is_ever_seen_but_what_was_and_what_comes() -> None:
    names = [b"x%d" % number for number in range(MANY)]
    old: Tree = dict.fromkeys(names, SORTS[FILE][0])
    new: Tree = {**dict.fromkeys(names[:30], SORTS[FILE][1]), b"new": SORTS[FILE][0], b"d": SORTS[DIRECTORY][0]}
    with ended(old, new) as (one, here), Watcher(lambda: set(os.listdir(one.real))) as watcher:
        one.merge_all()
        back_and_forth(one, here, new)

    assert watcher.seen <= {*map(os.fsdecode, names), "new", "d"}
