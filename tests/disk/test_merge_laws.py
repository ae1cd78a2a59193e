"""Laws of merging on real files, over random trees: nothing, everything, some and then the rest."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_dev.overlay.changes import Kind
from tests.disk.merge_nodes import FOLDER, NEW, OLD
from tests.harness import trees
from tests.harness.ended import Ended
from tests.harness.trees import Mark, Tree

Pair = tuple[Tree, Tree, frozenset[bytes]]
ON_DISK = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def ended(pair: Pair) -> Iterator[Ended]:
    base, agent, noise = pair
    with tempfile.TemporaryDirectory() as folder, Ended(Path(folder), base, trees.upper_of(base, agent, noise)) as session:
        yield session


def some_of(paths: list[bytes]) -> st.SearchStrategy[frozenset[bytes]]:
    return st.frozensets(st.sampled_from(paths)) if paths else st.just(frozenset())


@ON_DISK
@given(trees.pairs())
def test_a_session_tells_exactly_what_differs(pair: Pair) -> None:
    base, agent, _ = pair
    with ended(pair) as session:
        assert session.kinds() == trees.differences(base, agent)
        assert session.conflicts() == {}


@ON_DISK
@given(trees.pairs())
def test_looking_changes_nothing(pair: Pair) -> None:
    base = pair[0]
    with ended(pair) as session:
        session.changes()

        assert trees.read(session.real) == base


@ON_DISK
@given(trees.pairs())
def test_merging_nothing_changes_nothing(pair: Pair) -> None:
    with ended(pair) as session:
        before = session.kinds()
        merged = session.merge()

        assert (merged.id, merged.taken) == ("", ())
        assert trees.read(session.real) == pair[0]
        assert session.kinds() == before


@ON_DISK
@given(trees.pairs())
def test_merging_everything_makes_the_agents_tree_and_leaves_nothing(pair: Pair) -> None:
    with ended(pair) as session:
        merged = session.merge_all()

        assert trees.read(session.real) == pair[1]
        assert merged.is_all == bool(merged.taken)
        assert (session.kinds(), session.conflicts()) == ({}, {})


@ON_DISK
@given(trees.pairs(), st.data())
def test_what_was_not_selected_does_not_change(pair: Pair, data: st.DataObject) -> None:
    base, agent, _ = pair
    with ended(pair) as session:
        some = data.draw(some_of(sorted(session.kinds())))
        taken = {change.key.path for change in session.merge(*some).taken}
        after = trees.read(session.real)

        assert {path: after.get(path) for path in taken} == {path: agent.get(path) for path in taken}
        assert {path: node for path, node in after.items() if path in base and path not in taken and node != base[path]} == {}


@ON_DISK
@given(trees.pairs(), st.data())
def test_what_was_left_is_still_in_the_session_and_nothing_else(pair: Pair, data: st.DataObject) -> None:
    with ended(pair) as session:
        before = session.kinds()
        some = data.draw(some_of(sorted(before)))
        taken = {change.key.path for change in session.merge(*some).taken}

        assert session.kinds() == {path: kind for path, kind in before.items() if path not in taken}
        assert session.conflicts() == {}


@ON_DISK
@given(trees.pairs(), st.data())
def test_some_and_then_the_rest_make_the_agents_tree(pair: Pair, data: st.DataObject) -> None:
    with ended(pair) as session:
        session.merge(*data.draw(some_of(sorted(session.kinds()))))
        session.merge_all()

        assert trees.read(session.real) == pair[1]
        assert (session.kinds(), session.conflicts()) == ({}, {})


@ON_DISK
@given(trees.pairs())
def test_a_merge_leaves_nothing_of_ours_beside_it(pair: Pair) -> None:
    with ended(pair) as session:
        merged = session.merge_all()
        kept = {path.name for path in Path(session.store.merges).rglob("*")}
        names = {path.name for path in Path(session.store.merges).iterdir()}

        assert names == ({merged.id} if merged.id else set())
        assert "probe" not in kept
        assert not list(Path(session.store.pending).glob("*"))


PARTS: dict[str, tuple[Tree, list[Mark], bytes, dict[bytes, Kind]]] = {
    "of a removed directory": (
        {b"d": FOLDER, b"d/a": OLD, b"d/b": OLD},
        [Mark(b"d", None)],
        b"d/a",
        {b"d/b": Kind.DELETED},
    ),
    "of a directory that was made anew": (
        {b"d": FOLDER, b"d/a": OLD, b"d/e": FOLDER, b"d/e/b": OLD, b"d/e/c": OLD},
        [Mark(b"d", FOLDER, opaque=True), Mark(b"d/new", NEW)],
        b"d/e/b",
        {b"d/a": Kind.DELETED, b"d/e/c": Kind.DELETED, b"d/new": Kind.ADDED},
    ),
    "of a file that became a directory": (
        {b"x": OLD},
        [Mark(b"x", FOLDER, opaque=True), Mark(b"x/y", NEW), Mark(b"x/z", NEW)],
        b"x/y",
        {b"x/z": Kind.ADDED},
    ),
    "of a new directory": ({}, [Mark(b"n", FOLDER), Mark(b"n/y", NEW), Mark(b"n/z", NEW)], b"n/y", {b"n/z": Kind.ADDED}),
    "an empty directory of a removed one": (
        {b"d": FOLDER, b"d/empty": FOLDER, b"d/b": OLD},
        [Mark(b"d", None)],
        b"d/empty",
        {b"d/b": Kind.DELETED},
    ),
    "all of a directory in a removed one": (
        {b"d": FOLDER, b"d/e": FOLDER, b"d/e/a": OLD, b"d/b": OLD},
        [Mark(b"d", None)],
        b"d/e/a",
        {b"d/b": Kind.DELETED},
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_of_a_part_that_was_merged_nothing_is_told_any_more(tmp_path: Path, part: str) -> None:
    base, marks, taken, left = PARTS[part]
    with Ended(tmp_path, base, marks) as session:
        session.merge(taken)

        assert (session.kinds(), session.conflicts()) == (left, {})
