"""Merging a bundle over a copy of the root gives the tree that merging the session itself gives."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings

from agent_dev.cli.screen.review_source import ReviewSource
from agent_dev.fs.entry import FileType
from tests.disk.bundle import bundles
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults
from tests.harness.scale import repeat
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

FOLDER = Node(DIRECTORY, b"", 0o750)
BEFORE: Tree = {b"d": FOLDER, b"d/x": Node(FILE, b"x\n"), b"gone": Node(FILE, b"z"), b"same": Node(FILE, b"1\n2\n3\n")}
AFTER: Tree = {b"d": FOLDER, b"d/x": Node(FILE, b"y\n"), b"new": Node(FILE, b"y\n"), b"same": Node(FILE, b"1\n2\nthree\n")}


def both(folder: Path, before: Tree, after: Tree, noise: frozenset[bytes] = frozenset()) -> tuple[EndedSession, EndedSession]:
    """Return a session and its import over a copy of the root."""
    session = EndedSession(folder, before, trees.upper_of(before, after, noise))
    copy = bundles.copied_root(session.real, folder / "copy")
    context = bundles.context_at(copy, folder / "other-state")
    return session, bundles.reopened(bundles.imported(bundles.exported(session), context), context)


@settings(max_examples=repeat(25), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(trees.pairs())
def test_merging_here_equals_merging_there(drawn: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    with TemporaryDirectory(dir=faults.memory_directory()) as folder:
        one, other = both(Path(folder), *drawn)
        with one, other:
            assert one.kinds() == other.kinds()
            assert one.conflicts() == other.conflicts()
            one.merge_all(), other.merge_all()
            assert trees.read(one.real) == trees.read(other.real)


def test_the_same_session_gives_the_same_bytes(tmp_path: Path) -> None:
    with EndedSession(tmp_path, BEFORE, trees.upper_of(BEFORE, AFTER)) as session:
        assert bundles.exported(session) == bundles.exported(session)


@pytest.mark.parametrize(("signature", "origin"), [(b"", "unsigned"), (b"x", "signed by eve\N{SYMBOL FOR ESCAPE}@here")])
def test_the_screen_shows_the_signer_and_the_host(tmp_path: Path, signature: bytes, origin: str) -> None:
    with EndedSession(tmp_path, BEFORE, trees.upper_of(BEFORE, AFTER)) as session:
        data = bundles.exported(session, signature)
        context = bundles.context_at(session.real, tmp_path / "other-state")
        with bundles.reopened(bundles.imported(data, context, lambda *_: "eve\x1b@here"), context) as other:
            review = other.review()
            try:
                shown = ReviewSource(review, other.store).command[0]
            finally:
                review.close()
    assert shown == f"[{origin}, from {os.uname().nodename}]"


def test_a_file_edited_there_is_merged_three_ways(tmp_path: Path) -> None:
    session = EndedSession(tmp_path, BEFORE, trees.upper_of(BEFORE, AFTER))
    copy = bundles.copied_root(session.real, tmp_path / "copy")
    (session.real / "same").write_bytes(b"one\n2\n3\n")  # here, so that the bundle carries the base version
    context = bundles.context_at(copy, tmp_path / "other-state")
    data = bundles.exported(session)
    (copy / "same").write_bytes(b"one\n2\n3\n")
    with session, bundles.reopened(bundles.imported(data, context), context) as other:
        assert (other.kinds().keys(), other.conflicts()) == (session.kinds().keys(), session.conflicts())


def test_a_path_that_differs_there_is_a_conflict(tmp_path: Path) -> None:
    session = EndedSession(tmp_path, BEFORE, trees.upper_of(BEFORE, AFTER))
    copy = bundles.copied_root(session.real, tmp_path / "copy")
    (copy / "gone").write_bytes(b"other")
    context = bundles.context_at(copy, tmp_path / "other-state")
    with session, bundles.reopened(bundles.imported(bundles.exported(session), context), context) as other:
        assert b"gone" in other.conflicts()
        other.merge_all()
        assert (copy / "gone").read_bytes() == b"other"


def test_an_imported_merge_can_be_undone(tmp_path: Path) -> None:
    one, other = both(tmp_path, BEFORE, AFTER)
    with one, other:
        before = trees.read(other.real)
        other.merge_all()
        other.undo()
        assert trees.read(other.real) == before


def test_attributes_modes_and_times_are_carried(tmp_path: Path) -> None:
    one = EndedSession(tmp_path, BEFORE, trees.upper_of(BEFORE, AFTER))
    made = one.upper / "new"
    os.setxattr(made, "user.note", b"\x00\xff")
    os.chmod(made, 0o640)
    os.utime(made, ns=(1, 12345678901))
    copy = bundles.copied_root(one.real, tmp_path / "copy")
    context = bundles.context_at(copy, tmp_path / "other-state")
    with one, bundles.reopened(bundles.imported(bundles.exported(one), context), context) as other:
        found = Path(other.session.root(0, "").upper) / "new"
        assert os.getxattr(found, "user.note") == b"\x00\xff"
        assert (found.stat().st_mode & 0o7777, found.stat().st_mtime_ns) == (0o640, 12345678901)


def test_the_setgid_bit_of_a_directory_is_no_change(tmp_path: Path) -> None:
    shared = {b"d": Node(DIRECTORY, b"", 0o2755), b"d/x": Node(FILE, b"x\n")}
    one, other = both(tmp_path, shared, shared | {b"d/y": Node(FILE, b"y\n")})
    with one, other:
        assert one.kinds() == other.kinds()
        assert other.kinds().keys() == {b"d/y"}


def test_equal_files_of_the_agent_stay_separate(tmp_path: Path) -> None:
    one, other = both(tmp_path, BEFORE, AFTER)
    with one, other:
        upper = Path(other.session.root(0, "").upper)
        assert (upper / "new").stat().st_ino != (upper / "d/x").stat().st_ino
        assert {entry.type for entry in AFTER.values()} == {FileType.FILE, FileType.DIRECTORY}
