"""A three-way undo of a file that the user edited since reverts the merge and keeps the edits, if both are compatible."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent_dev.diff import merge3
from agent_dev.merge.undo import UndoResult
from agent_dev.overlay.changes import ChangeKind
from tests.harness import trees, users
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults
from tests.harness.trees import DIRECTORY, FILE, Node, Tree, UpperEntry

BEFORE = b"".join(b"line %d\n" % number for number in range(12))
MERGED = BEFORE.replace(b"line 2\n", b"agent 2\n")
YOURS = MERGED.replace(b"line 9\n", b"mine 9\n")
APART = BEFORE.replace(b"line 9\n", b"mine 9\n")
CLASHING = MERGED.replace(b"agent 2\n", b"agent and mine 2\n")


@contextmanager
def merged(before: bytes = BEFORE, after: bytes = MERGED, more: Tree | None = None) -> Iterator[EndedSession]:
    """Yield a session after a merge of all its changes: one edited text file and some others."""
    base: Tree = {b"text": Node(FILE, before), b"other": Node(FILE, b"other")}
    agent: Tree = {b"text": Node(FILE, after), b"other": Node(FILE, b"agent's"), b"new": Node(FILE, b"new"), **(more or {})}
    with tempfile.TemporaryDirectory() as folder, EndedSession(Path(folder), base, trees.upper_of(base, agent)) as session:
        session.merge_all()
        yield session


def write(session: EndedSession, data: bytes) -> None:
    (session.real / "text").write_bytes(data)


def save_by_rename(session: EndedSession, data: bytes) -> None:
    (session.real / "saving").write_bytes(data)
    (session.real / "saving").rename(session.real / "text")


def text(session: EndedSession) -> bytes:
    return (session.real / "text").read_bytes()


def left(done: UndoResult) -> dict[bytes, str]:
    return {one.key.path: one.reason for one in done.skipped}


@pytest.mark.parametrize("save", [write, save_by_rename])
def test_by_default_the_file_stays_and_a_three_way_undo_is_offered(save: Callable[[EndedSession, bytes], None]) -> None:
    with merged() as session:
        save(session, YOURS)
        done = session.undo()

        assert text(session) == YOURS
        assert {key.path for key in done.three_way_candidates} == {b"text"} == left(done).keys()
        assert {key.path for key in done.paths} == {b"new", b"other"}
        assert session.kinds().keys() == {b"new", b"other"}


@pytest.mark.parametrize("save", [write, save_by_rename])
@pytest.mark.parametrize("is_second", [False, True], ids=["at once", "after a plain undo"])
def test_a_three_way_undo_reverts_the_merge_and_keeps_the_users_edits(
    save: Callable[[EndedSession, bytes], None], *, is_second: bool
) -> None:
    with merged() as session:
        save(session, YOURS)
        if is_second:
            session.undo()
        done = session.undo(is_three_way=True)

        assert text(session) == APART
        assert ({key.path for key in done.merged_with_yours}, done.skipped, done.three_way_candidates) == (
            {b"text"},
            (),
            frozenset(),
        )
        assert trees.read(session.real).keys() == {b"text", b"other"}


def test_the_agents_change_returns_to_the_session_and_can_be_selected_again() -> None:
    with merged() as session:
        write(session, YOURS)
        session.undo(is_three_way=True)

        assert session.kinds() == {b"new": ChangeKind.ADDED, b"other": ChangeKind.EDITED, b"text": ChangeKind.EDITED}
        assert (session.upper / "text").read_bytes() == MERGED
        session.merge_all()
        assert text(session) == YOURS


def test_a_redo_restores_the_users_exact_file() -> None:
    with merged() as session:
        write(session, YOURS)
        inode = (session.real / "text").stat().st_ino
        session.undo(is_three_way=True)
        session.redo()

        assert (text(session), (session.real / "text").stat().st_ino) == (YOURS, inode)
        assert session.kinds() == {}


def test_after_the_redo_the_three_way_undo_is_offered_again() -> None:
    with merged() as session:
        write(session, YOURS)
        for _ in range(3):
            session.undo(is_three_way=True)
            assert text(session) == APART
            session.redo()
        assert left(session.undo()).keys() == {b"text"}
        write(session, MERGED)
        session.undo()
        assert text(session) == BEFORE


def test_the_result_stays_when_the_user_edits_on() -> None:
    with merged() as session:
        write(session, YOURS)
        session.undo(is_three_way=True)
        write(session, APART + b"more\n")
        done = session.redo()

        assert text(session) == APART + b"more\n"
        assert left(done).keys() == {b"text"}


def test_a_redo_does_not_lose_a_later_version_of_the_agent() -> None:
    with merged() as session:
        write(session, YOURS)
        session.undo(is_three_way=True)
        (session.upper / "text").write_bytes(b"the agent went on\n")
        done = session.redo()

        assert (session.upper / "text").read_bytes() == b"the agent went on\n"
        assert (text(session), left(done)) == (APART, {b"text": "the session has another version of it now"})


LATER = b"what the user saved while it was undone\n"


@pytest.mark.parametrize("save", [write, save_by_rename])
def test_a_concurrent_save_of_the_user_is_never_lost(save: Callable[[EndedSession, bytes], None]) -> None:
    number, more = 1, True
    while more:
        with merged() as session:
            write(session, YOURS)
            more = saved_at(number, session, save)

            assert text(session) == (LATER if more else APART)
        number += 3


def saved_at(number: int, session: EndedSession, save: Callable[[EndedSession, bytes], None]) -> bool:
    """Undo, and save as the user before the `number`-th change to the disk; return whether the undo makes that many."""
    calls: list[str] = []

    def watch(call: str, _words: tuple[object, ...]) -> None:
        calls.append(call)
        if len(calls) == number:
            save(session, LATER)

    with faults.with_hook(watch):
        session.undo(is_three_way=True)
    return len(calls) >= number


def chmod(session: EndedSession, mode: int) -> None:
    (session.real / "text").chmod(mode)


def give_attribute(session: EndedSession) -> None:
    os.setxattr(session.real / "text", "user.mine", b"1")


def turn_into_a_link(session: EndedSession) -> None:
    (session.real / "text").unlink()
    (session.real / "text").symlink_to("other")


# What the user did in addition to an edit of the file, or instead.
LEFT: dict[str, Callable[[EndedSession], object]] = {
    "the same lines": lambda one: write(one, CLASHING),
    "no text": lambda one: write(one, b"\0\1\2\0" * 40 + YOURS),
    "an attribute": give_attribute,
    "special bits": lambda one: chmod(one, 0o4755),
    "removed": lambda one: (one.real / "text").unlink(),
    "a link": turn_into_a_link,
    "results that are gone": lambda one: (kept(one) / "results").unlink(),
    "results that are damaged": lambda one: spoil(kept(one) / "results"),
    "results that are cut off": lambda one: os.truncate(kept(one) / "results", 60),
}


def kept(session: EndedSession) -> Path:
    (folder,) = (one for one in Path(session.store.merges).iterdir() if one.name != "pending")
    return folder


def spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"line 5", b"LINE 5"))


@pytest.mark.parametrize("how", LEFT)
def test_a_conflicting_or_unknown_file_is_left_unchanged_and_named(how: str) -> None:
    with merged() as session:
        write(session, YOURS)
        LEFT[how](session)
        before = trees.read(session.real).get(b"text")
        done = session.undo(is_three_way=True)

        assert trees.read(session.real).get(b"text") == before
        assert left(done).keys() == {b"text"}
        assert (done.three_way_candidates, done.merged_with_yours) == (frozenset(), frozenset())
        assert {key.path for key in done.paths} == {b"new", b"other"}


def test_a_mode_set_by_the_user_stays_and_one_set_by_the_merge_is_reverted() -> None:
    base, agent = {b"text": Node(FILE, BEFORE, 0o644)}, {b"text": Node(FILE, MERGED, 0o755)}
    with tempfile.TemporaryDirectory() as folder, EndedSession(Path(folder), base, trees.upper_of(base, agent)) as session:
        session.merge_all()
        write(session, YOURS)
        session.undo(is_three_way=True)
        assert trees.read(session.real)[b"text"] == Node(FILE, APART, 0o644)
        session.redo()
        write(session, MERGED)
        chmod(session, 0o700)
        assert left(session.undo(is_three_way=True)).keys() == {b"text"}  # the user and the merge changed the mode differently

    with merged() as session:
        chmod(session, 0o600)
        session.undo(is_three_way=True)
        assert trees.read(session.real)[b"text"] == Node(FILE, BEFORE, 0o600)


def test_the_agents_part_of_a_merged_file_returns_to_the_session() -> None:
    base = {b"text": Node(FILE, BEFORE)}
    with (
        tempfile.TemporaryDirectory() as folder,
        EndedSession(Path(folder), base, [UpperEntry(b"text", Node(FILE, MERGED))]) as session,
    ):
        write(session, BEFORE.replace(b"line 5\n", b"early 5\n"))
        session.merge_all()
        write(session, text(session).replace(b"line 9\n", b"mine 9\n"))
        session.undo(is_three_way=True)

        assert text(session) == APART.replace(b"line 5\n", b"early 5\n")
        assert (session.upper / "text").read_bytes() == MERGED


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=8).map(b"".join)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(LINES, LINES, LINES)
def test_the_result_equals_a_three_way_merge_or_nothing_happens(before: bytes, after: bytes, yours: bytes) -> None:
    assume(before != after != yours)
    with merged(before, after) as session:
        write(session, yours)
        done = session.undo(is_three_way=True)
        expected = merge3.merge_lines(after, yours, before)

        assert text(session) == (expected.resolve() if expected.is_clean else yours)
        assert bool(left(done)) != expected.is_clean
        if expected.is_clean:
            session.redo()
            assert text(session) == yours


def test_the_change_returns_to_the_session_below_an_unwritable_directory() -> None:
    def act(place: Path) -> None:
        with EndedSession(place, {b"d": Node(DIRECTORY, b"", 0o755), b"d/text": Node(FILE, b"1\n2\n3\n4\n")}, []) as session:
            unreadable = session.upper / "d"
            unreadable.mkdir()
            (unreadable / "text").write_bytes(b"one\n2\n3\n4\n")
            unreadable.chmod(0o500)
            session.merge_all()
            (session.real / "d/text").write_bytes(b"one\n2\n3\nmine\n")

            assert session.undo(is_three_way=True).skipped == ()

            assert (session.real / "d/text").read_bytes() == b"1\n2\n3\nmine\n"
            assert (unreadable / "text").read_bytes() == b"one\n2\n3\n4\n"
            assert os.listdir(unreadable) == ["text"]

    with users.ordinary_users_directory() as place:
        users.call_as_ordinary_user(lambda: act(place))
