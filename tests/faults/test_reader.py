"""Observe the tree while a merge, an undo or a redo runs: no replaced entry is ever absent, and no file is ever partial."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from agent_dev.fs.entry import FileType
from agent_dev.merge import undo
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.git.observer import Observer
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

MANY = 40
SORTS = {
    FILE: (Node(FILE, b"a" * 4096), Node(FILE, b"b" * 4096)),
    SYMLINK: (Node(SYMLINK, b"one", 0o777), Node(SYMLINK, b"other", 0o777)),
    DIRECTORY: (Node(DIRECTORY, b"", 0o755), Node(DIRECTORY, b"", 0o755)),
}


@contextmanager
def ended(before: Tree, after: Tree) -> Iterator[tuple[EndedSession, CommandContext]]:
    with tempfile.TemporaryDirectory() as folder:
        one = EndedSession(Path(folder), before, trees.upper_of(before, after))
        os.close(one.session.lock)
        yield one, CommandContext(one.store, str(one.real), str(one.real), ENVIRON)


def back_and_forth(one: EndedSession, here: CommandContext, end: Tree) -> None:
    assert trees.read(one.real) == end
    for _ in range(2):
        undo.undo(here, "", lambda _: None)
        undo.redo(here, "", lambda _: None)
    assert trees.read(one.real) == end


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(SORTS, SORTS) if set(pair) != {DIRECTORY}])
def test_a_replaced_path_is_never_absent_during_merge_undo_and_redo(before: FileType, after: FileType) -> None:
    names = [b"x%d" % number for number in range(MANY)]
    old = dict.fromkeys(names, SORTS[before][0])
    new = dict.fromkeys(names, SORTS[after][1])
    with ended(old, new) as (one, here):
        watched = [os.path.join(os.fsencode(one.real), name) for name in names[20:24]]
        with Observer(lambda: {os.fsdecode(place) for place in watched if not os.path.lexists(place)}) as watcher:
            one.merge_all()
            back_and_forth(one, here, new)

    assert watcher.seen == set()


def test_a_replaced_file_is_always_whole_during_merge_undo_and_redo() -> None:
    names = [b"x%d" % number for number in range(MANY)]
    old, new = (dict.fromkeys(names, SORTS[FILE][side]) for side in (0, 1))
    with ended(old, new) as (one, here):

        def look() -> set[str]:
            data = (one.real / "x10").read_bytes()
            return {f"{len(data)} {sorted(set(data))}"}

        with Observer(look) as watcher:
            one.merge_all()
            back_and_forth(one, here, new)

    assert watcher.seen == {f"4096 {[ord(letter)]}" for letter in "ab"}


def test_a_name_only_ever_shows_the_old_or_new_entry() -> None:
    names = [b"x%d" % number for number in range(MANY)]
    old: Tree = dict.fromkeys(names, SORTS[FILE][0])
    new: Tree = {**dict.fromkeys(names[:30], SORTS[FILE][1]), b"new": SORTS[FILE][0], b"d": SORTS[DIRECTORY][0]}
    with ended(old, new) as (one, here), Observer(lambda: set(os.listdir(one.real))) as watcher:
        one.merge_all()
        back_and_forth(one, here, new)

    assert watcher.seen <= {*map(os.fsdecode, names), "new", "d"}
