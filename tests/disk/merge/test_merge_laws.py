"""Laws of merges over random trees of real files: merging nothing, everything, or one part and then the rest."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_dev.overlay.changes import ChangeKind
from tests.disk.merge.merge_nodes import FOLDER, NEW, OLD
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import Tree, UpperEntry

Pair = tuple[Tree, Tree, frozenset[bytes]]
ON_DISK = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def ended(pair: Pair) -> Iterator[EndedSession]:
    base, agent, noise = pair
    with tempfile.TemporaryDirectory() as folder, EndedSession(Path(folder), base, trees.upper_of(base, agent, noise)) as session:
        yield session


def some_of(paths: list[bytes]) -> st.SearchStrategy[frozenset[bytes]]:
    return st.frozensets(st.sampled_from(paths)) if paths else st.just(frozenset())


@ON_DISK
@given(trees.pairs())
def test_a_session_lists_exactly_the_differences(pair: Pair) -> None:
    base, agent, _ = pair
    with ended(pair) as session:
        assert session.kinds() == trees.differences(base, agent)
        assert session.conflicts() == {}


@ON_DISK
@given(trees.pairs())
def test_inspecting_changes_nothing(pair: Pair) -> None:
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

        assert (merged.id, merged.applied) == ("", ())
        assert trees.read(session.real) == pair[0]
        assert session.kinds() == before


@ON_DISK
@given(trees.pairs())
def test_merging_everything_yields_the_agents_tree_and_leaves_nothing(pair: Pair) -> None:
    with ended(pair) as session:
        merged = session.merge_all()

        assert trees.read(session.real) == pair[1]
        assert merged.is_session_empty == bool(merged.applied)
        assert (session.kinds(), session.conflicts()) == ({}, {})


@ON_DISK
@given(trees.pairs(), st.data())
def test_unselected_changes_are_not_applied(pair: Pair, data: st.DataObject) -> None:
    base, agent, _ = pair
    with ended(pair) as session:
        some = data.draw(some_of(sorted(session.kinds())))
        taken = {change.key.path for change in session.merge(*some).applied}
        after = trees.read(session.real)

        assert {path: after.get(path) for path in taken} == {path: agent.get(path) for path in taken}
        assert {path: node for path, node in after.items() if path in base and path not in taken and node != base[path]} == {}


@ON_DISK
@given(trees.pairs(), st.data())
def test_unselected_changes_and_nothing_else_stay_in_the_session(pair: Pair, data: st.DataObject) -> None:
    with ended(pair) as session:
        before = session.kinds()
        some = data.draw(some_of(sorted(before)))
        taken = {change.key.path for change in session.merge(*some).applied}

        assert session.kinds() == {path: kind for path, kind in before.items() if path not in taken}
        assert session.conflicts() == {}


@ON_DISK
@given(trees.pairs(), st.data())
def test_merging_in_two_parts_yields_the_agents_tree(pair: Pair, data: st.DataObject) -> None:
    with ended(pair) as session:
        session.merge(*data.draw(some_of(sorted(session.kinds()))))
        session.merge_all()

        assert trees.read(session.real) == pair[1]
        assert (session.kinds(), session.conflicts()) == ({}, {})


@ON_DISK
@given(trees.pairs())
def test_a_merge_leaves_no_files_of_ours(pair: Pair) -> None:
    with ended(pair) as session:
        merged = session.merge_all()
        kept = {path.name for path in Path(session.store.merges).rglob("*")}
        names = {path.name for path in Path(session.store.merges).iterdir()}

        assert names == ({merged.id} if merged.id else set())
        assert "probe" not in kept
        assert not list(Path(session.store.pending).glob("*"))


PARTS: dict[str, tuple[Tree, list[UpperEntry], bytes, dict[bytes, ChangeKind]]] = {
    "of a removed directory": (
        {b"d": FOLDER, b"d/a": OLD, b"d/b": OLD},
        [UpperEntry(b"d", None)],
        b"d/a",
        {b"d/b": ChangeKind.DELETED},
    ),
    "of a directory that was made anew": (
        {b"d": FOLDER, b"d/a": OLD, b"d/e": FOLDER, b"d/e/b": OLD, b"d/e/c": OLD},
        [UpperEntry(b"d", FOLDER, opaque=True), UpperEntry(b"d/new", NEW)],
        b"d/e/b",
        {b"d/a": ChangeKind.DELETED, b"d/e/c": ChangeKind.DELETED, b"d/new": ChangeKind.ADDED},
    ),
    "of a file that became a directory": (
        {b"x": OLD},
        [UpperEntry(b"x", FOLDER, opaque=True), UpperEntry(b"x/y", NEW), UpperEntry(b"x/z", NEW)],
        b"x/y",
        {b"x/z": ChangeKind.ADDED},
    ),
    "of a new directory": (
        {},
        [UpperEntry(b"n", FOLDER), UpperEntry(b"n/y", NEW), UpperEntry(b"n/z", NEW)],
        b"n/y",
        {b"n/z": ChangeKind.ADDED},
    ),
    "an empty directory of a removed one": (
        {b"d": FOLDER, b"d/empty": FOLDER, b"d/b": OLD},
        [UpperEntry(b"d", None)],
        b"d/empty",
        {b"d/b": ChangeKind.DELETED},
    ),
    "all of a directory in a removed one": (
        {b"d": FOLDER, b"d/e": FOLDER, b"d/e/a": OLD, b"d/b": OLD},
        [UpperEntry(b"d", None)],
        b"d/e/a",
        {b"d/b": ChangeKind.DELETED},
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_merged_changes_are_not_listed_any_more(tmp_path: Path, part: str) -> None:
    base, marks, taken, left = PARTS[part]
    with EndedSession(tmp_path, base, marks) as session:
        session.merge(taken)

        assert (session.kinds(), session.conflicts()) == (left, {})
