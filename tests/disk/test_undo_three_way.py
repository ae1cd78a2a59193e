"""An undo of a file that the user has changed since: what the merge did goes, what the user did stays, where both fit."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent_dev.diff import merge3 as threeway
from agent_dev.merge.undo import Undone
from agent_dev.overlay.changes import Kind
from tests.harness import faults, trees, users
from tests.harness.ended import Ended
from tests.harness.trees import DIRECTORY, FILE, Mark, Node, Tree

BEFORE = b"".join(b"line %d\n" % number for number in range(12))
MERGED = BEFORE.replace(b"line 2\n", b"agent 2\n")
MINE = MERGED.replace(b"line 9\n", b"mine 9\n")
APART = BEFORE.replace(b"line 9\n", b"mine 9\n")
CLASHING = MERGED.replace(b"agent 2\n", b"agent and mine 2\n")


@contextmanager
def merged(before: bytes = BEFORE, after: bytes = MERGED, more: Tree | None = None) -> Iterator[Ended]:
    """A session of which everything was merged: one edited file, and what else there is."""
    base: Tree = {b"text": Node(FILE, before), b"other": Node(FILE, b"other")}
    agent: Tree = {b"text": Node(FILE, after), b"other": Node(FILE, b"agent's"), b"new": Node(FILE, b"new"), **(more or {})}
    with tempfile.TemporaryDirectory() as folder, Ended(Path(folder), base, trees.upper_of(base, agent)) as session:
        session.merge_all()
        yield session


def write(session: Ended, data: bytes) -> None:
    (session.real / "text").write_bytes(data)


def save_by_rename(session: Ended, data: bytes) -> None:
    (session.real / "saving").write_bytes(data)
    (session.real / "saving").rename(session.real / "text")


def text(session: Ended) -> bytes:
    return (session.real / "text").read_bytes()


def left(done: Undone) -> dict[bytes, str]:
    return {one.key.path: one.why for one in done.left}


@pytest.mark.parametrize("save", [write, save_by_rename])
def test_unasked_the_file_stays_and_the_three_way_is_offered(save: Callable[[Ended, bytes], None]) -> None:
    with merged() as session:
        save(session, MINE)
        done = session.undo()

        assert text(session) == MINE
        assert {key.path for key in done.offered} == {b"text"} == left(done).keys()
        assert {key.path for key in done.paths} == {b"new", b"other"}
        assert session.kinds().keys() == {b"new", b"other"}


@pytest.mark.parametrize("save", [write, save_by_rename])
@pytest.mark.parametrize("is_second", [False, True], ids=["at once", "after a plain undo"])
def test_asked_it_takes_back_what_the_merge_did_and_keeps_what_the_user_did(
    save: Callable[[Ended, bytes], None], *, is_second: bool
) -> None:
    with merged() as session:
        save(session, MINE)
        if is_second:
            session.undo()
        done = session.undo(is_three_way=True)

        assert text(session) == APART
        assert ({key.path for key in done.kept}, done.left, done.offered) == ({b"text"}, (), frozenset())
        assert trees.read(session.real).keys() == {b"text", b"other"}


def test_the_session_holds_the_agents_change_again_and_it_can_be_chosen_again() -> None:
    with merged() as session:
        write(session, MINE)
        session.undo(is_three_way=True)

        assert session.kinds() == {b"new": Kind.ADDED, b"other": Kind.EDITED, b"text": Kind.EDITED}
        assert (session.upper / "text").read_bytes() == MERGED
        session.merge_all()
        assert text(session) == MINE


def test_a_redo_brings_back_exactly_the_file_that_the_user_had() -> None:
    with merged() as session:
        write(session, MINE)
        inode = (session.real / "text").stat().st_ino
        session.undo(is_three_way=True)
        session.redo()

        assert (text(session), (session.real / "text").stat().st_ino) == (MINE, inode)
        assert session.kinds() == {}


def test_after_the_redo_all_is_as_it_was_and_the_three_way_is_asked_for_again() -> None:
    with merged() as session:
        write(session, MINE)
        for _ in range(3):
            session.undo(is_three_way=True)
            assert text(session) == APART
            session.redo()
        assert left(session.undo()).keys() == {b"text"}
        write(session, MERGED)
        session.undo()
        assert text(session) == BEFORE


def test_what_was_left_of_it_stays_when_the_user_goes_on_writing() -> None:
    with merged() as session:
        write(session, MINE)
        session.undo(is_three_way=True)
        write(session, APART + b"more\n")
        done = session.redo()

        assert text(session) == APART + b"more\n"
        assert left(done).keys() == {b"text"}


def test_what_the_agent_made_of_it_since_is_not_lost_by_a_redo() -> None:
    with merged() as session:
        write(session, MINE)
        session.undo(is_three_way=True)
        (session.upper / "text").write_bytes(b"the agent went on\n")
        done = session.redo()

        assert (session.upper / "text").read_bytes() == b"the agent went on\n"
        assert (text(session), left(done)) == (APART, {b"text": "the session has something else there now"})


LATER = b"what the user saved while it was undone\n"


@pytest.mark.parametrize("save", [write, save_by_rename])
def test_what_the_user_saves_at_any_moment_of_it_stands_there_afterwards(save: Callable[[Ended, bytes], None]) -> None:
    number, more = 1, True
    while more:
        with merged() as session:
            write(session, MINE)
            more = saved_at(number, session, save)

            assert text(session) == (LATER if more else APART)
        number += 3


def saved_at(number: int, session: Ended, save: Callable[[Ended, bytes], None]) -> bool:
    """Undo, and have the user save before the `number`-th change to the disk; return whether it came to that."""
    calls: list[str] = []

    def watch(call: str, _words: tuple[object, ...]) -> None:
        calls.append(call)
        if len(calls) == number:
            save(session, LATER)

    with faults.watched(watch):
        session.undo(is_three_way=True)
    return len(calls) >= number


def chmod(session: Ended, mode: int) -> None:
    (session.real / "text").chmod(mode)


def give_attribute(session: Ended) -> None:
    os.setxattr(session.real / "text", "user.mine", b"1")


def turn_into_a_link(session: Ended) -> None:
    (session.real / "text").unlink()
    (session.real / "text").symlink_to("other")


# What the user did beside editing the file, or instead.
LEFT: dict[str, Callable[[Ended], object]] = {
    "the same lines": lambda one: write(one, CLASHING),
    "no text": lambda one: write(one, b"\0" + MINE),
    "an attribute": give_attribute,
    "special bits": lambda one: chmod(one, 0o4755),
    "removed": lambda one: (one.real / "text").unlink(),
    "a link": turn_into_a_link,
    "results that are gone": lambda one: (kept(one) / "results").unlink(),
    "results that are damaged": lambda one: spoil(kept(one) / "results"),
    "results that are cut off": lambda one: os.truncate(kept(one) / "results", 60),
}


def kept(session: Ended) -> Path:
    (folder,) = (one for one in Path(session.store.merges).iterdir() if one.name != "pending")
    return folder


def spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"line 5", b"LINE 5"))


@pytest.mark.parametrize("how", LEFT)
def test_what_does_not_fit_or_is_not_known_is_left_as_the_user_has_it_and_named(how: str) -> None:
    with merged() as session:
        write(session, MINE)
        LEFT[how](session)
        before = trees.read(session.real).get(b"text")
        done = session.undo(is_three_way=True)

        assert trees.read(session.real).get(b"text") == before
        assert left(done).keys() == {b"text"}
        assert (done.offered, done.kept) == (frozenset(), frozenset())
        assert {key.path for key in done.paths} == {b"new", b"other"}


def test_a_mode_that_the_user_gave_stays_and_one_that_the_merge_gave_goes() -> None:
    base, agent = {b"text": Node(FILE, BEFORE, 0o644)}, {b"text": Node(FILE, MERGED, 0o755)}
    with tempfile.TemporaryDirectory() as folder, Ended(Path(folder), base, trees.upper_of(base, agent)) as session:
        session.merge_all()
        write(session, MINE)
        session.undo(is_three_way=True)
        assert trees.read(session.real)[b"text"] == Node(FILE, APART, 0o644)
        session.redo()
        write(session, MERGED)
        chmod(session, 0o700)
        assert left(session.undo(is_three_way=True)).keys() == {b"text"}  # both gave it another

    with merged() as session:
        chmod(session, 0o600)
        session.undo(is_three_way=True)
        assert trees.read(session.real)[b"text"] == Node(FILE, BEFORE, 0o600)


def test_of_a_file_that_was_merged_with_what_the_user_changed_the_agents_own_comes_back_to_the_session() -> None:
    base = {b"text": Node(FILE, BEFORE)}
    with tempfile.TemporaryDirectory() as folder, Ended(Path(folder), base, [Mark(b"text", Node(FILE, MERGED))]) as session:
        write(session, BEFORE.replace(b"line 5\n", b"early 5\n"))
        session.merge_all()
        write(session, text(session).replace(b"line 9\n", b"mine 9\n"))
        session.undo(is_three_way=True)

        assert text(session) == APART.replace(b"line 5\n", b"early 5\n")
        assert (session.upper / "text").read_bytes() == MERGED


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=8).map(b"".join)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(LINES, LINES, LINES)
def test_it_is_what_a_three_way_merge_makes_or_nothing_happens(before: bytes, after: bytes, mine: bytes) -> None:
    assume(before != after != mine)
    with merged(before, after) as session:
        write(session, mine)
        done = session.undo(is_three_way=True)
        expected = threeway.merge(after, mine, before)

        assert text(session) == (expected.resolve() if expected.is_clean else mine)
        assert bool(left(done)) != expected.is_clean
        if expected.is_clean:
            session.redo()
            assert text(session) == mine


def test_the_session_gets_it_back_into_a_directory_that_shuts_its_owner_out() -> None:
    def act(place: Path) -> None:
        with Ended(place, {b"d": Node(DIRECTORY, b"", 0o755), b"d/text": Node(FILE, b"1\n2\n3\n4\n")}, []) as session:
            shut = session.upper / "d"
            shut.mkdir()
            (shut / "text").write_bytes(b"one\n2\n3\n4\n")
            shut.chmod(0o500)
            session.merge_all()
            (session.real / "d/text").write_bytes(b"one\n2\n3\nmine\n")

            assert session.undo(is_three_way=True).left == ()

            assert (session.real / "d/text").read_bytes() == b"1\n2\n3\nmine\n"
            assert (shut / "text").read_bytes() == b"one\n2\n3\n4\n"
            assert os.listdir(shut) == ["text"]

    with users.open_place() as place:
        users.as_ordinary(lambda: act(place))
