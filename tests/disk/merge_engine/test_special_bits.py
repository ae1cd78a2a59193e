"""Setuid, setgid and sticky bits: an undo restores the user's with owner and group; the agent's are never applied."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import pytest

from agent_dev.errors import CannotMerge
from agent_dev.merge import merge
from tests.harness import trees, users
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults, power_cuts
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree

PLANS: dict[str, tuple[Tree, Tree]] = {
    "edited": ({b"a": Node(FILE, b"one\n", 0o6755)}, {b"a": Node(FILE, b"two\n", 0o755)}),
    "removed": ({b"a": Node(FILE, b"one\n", 0o4711), b"b": Node(FILE, b"", 0o1644)}, {b"b": Node(FILE, b"", 0o1644)}),
    "a folder with a file is a file now": (
        {b"d": Node(DIRECTORY, b"", 0o3775), b"d/a": Node(FILE, b"one\n", 0o2755)},
        {b"d": Node(FILE, b"two\n", 0o644)},
    ),
    "a folder is a link now": ({b"d": Node(DIRECTORY, b"", 0o2750)}, {b"d": Node(SYMLINK, b"/", 0o777)}),
    "a folder is gone": ({b"d": Node(DIRECTORY, b"", 0o1777), b"d/a": Node(FILE, b"one\n", 0o4755)}, {}),
    "a folder has another mode": ({b"d": Node(DIRECTORY, b"", 0o3775)}, {b"d": Node(DIRECTORY, b"", 0o3700)}),
}
EDITED = PLANS["edited"]
LINES: tuple[Tree, Tree] = (
    {b"a": Node(FILE, b"1\n2\n3\n4\n", 0o4755)},
    {b"a": Node(FILE, b"one\n2\n3\n4\n", 0o755)},
)
WHO = ["root", "user"] if os.getuid() == 0 else ["user"]
HOW = ["renamed", "copied"]


@contextmanager
def kept(how: str) -> Iterator[None]:
    """Have a merge keep replaced files by a rename into its own directory, or next to the tree, from where they are copied."""
    with mock.patch.object(merge, "_stage_candidates", power_cuts._stage_in_tree) if how == "copied" else nullcontext():
        yield


def done_by(who: str, act: Callable[[Path], None], prepare: Callable[[Path], None] = lambda _: None) -> None:
    """Call `act` in a new directory as root or as an ordinary user, after `prepare` as the user who runs the tests."""
    with users.ordinary_users_directory(faults.memory_directory()) as place:
        prepare(place)
        if who == "root":
            act(place)
        else:
            users.call_as_ordinary_user(lambda: act(place))


def undone_twice(place: Path, before: Tree, after: Tree, how: str) -> Iterator[EndedSession]:
    """Yield a session after an undo of its merge, and again after an undo of the redo."""
    with EndedSession(place, before, trees.upper_of(before, after)) as session, kept(how):
        for action in (session.merge_all, session.redo):
            action()
            assert trees.read(session.real) == after
            session.undo()
            yield session


def status(session: EndedSession) -> tuple[int, int, int]:
    found = (session.real / "a").stat()
    return found.st_uid, found.st_gid, found.st_mode & 0o7777


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("plan", PLANS)
def test_an_undo_restores_special_bits_and_a_redo_clears_them(plan: str, how: str, who: str) -> None:
    before, after = PLANS[plan]

    def act(place: Path) -> None:
        for session in undone_twice(place, before, after, how):
            assert trees.read(session.real) == before
            assert session.kinds() == trees.differences(before, after)

    done_by(who, act)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("mode", [0o000, 0o200])
def test_an_unreadable_file_is_restored_too(mode: int, how: str) -> None:
    before = {b"a": Node(FILE, b"one\n", mode), b"b": Node(FILE, b"one\n", mode)}
    after = {b"b": Node(FILE, b"two\n", 0o644)}

    def act(place: Path) -> None:
        for session in undone_twice(place, before, after, how):
            assert {one.name: one.stat().st_mode & 0o7777 for one in session.real.iterdir()} == {"a": mode, "b": mode}

    done_by("user", act)


@pytest.mark.parametrize("who", WHO)
def test_a_file_with_another_hard_link_is_restored_too(who: str) -> None:
    def act(place: Path) -> None:
        with EndedSession(place, EDITED[0], trees.upper_of(*EDITED)) as session:
            os.link(session.real / "a", place / "twin")
            session.merge_all()
            (place / "twin").chmod(0o600)
            session.undo()
            assert trees.read(session.real) == EDITED[0]

    done_by(who, act)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("how", HOW)
def test_a_three_way_undo_restores_special_bits_too(how: str, who: str) -> None:
    def act(place: Path) -> None:
        with EndedSession(place, LINES[0], trees.upper_of(*LINES)) as session, kept(how):
            session.merge_all()
            (session.real / "a").write_bytes(b"one\n2\n3\nmine\n")
            session.undo(is_three_way=True)
            assert trees.read(session.real) == {b"a": Node(FILE, b"1\n2\n3\nmine\n", 0o4755)}
            session.redo()
            assert trees.read(session.real) == {b"a": Node(FILE, b"one\n2\n3\nmine\n", 0o755)}

    done_by(who, act)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("how", HOW)
def test_a_redo_never_sets_special_bits_of_the_agent(how: str, who: str) -> None:
    before, after = {b"a": Node(FILE, b"one\n", 0o4755)}, {b"a": Node(FILE, b"two\n", 0o6755), b"b": Node(FILE, b"", 0o4755)}

    def act(place: Path) -> None:
        with EndedSession(place, before, trees.upper_of(before, after)) as session, kept(how):
            for action in (session.merge_all, session.redo):
                action()
                assert {path: oct(node.mode) for path, node in trees.read(session.real).items()} == {b"a": "0o755", b"b": "0o755"}
                session.undo()
                assert trees.read(session.real) == before

    done_by(who, act)


@pytest.mark.parametrize("how", HOW)
def test_root_restores_owner_and_group_too(how: str) -> None:
    def act(place: Path) -> None:
        with EndedSession(place, EDITED[0], trees.upper_of(*EDITED)) as session, kept(how):
            os.chown(session.real / "a", users.NOBODY, 7)
            (session.real / "a").chmod(0o6755)
            session.merge_all()
            assert status(session)[2] == 0o755
            session.undo()
            assert status(session) == (users.NOBODY, 7, 0o6755)

    if os.getuid() == 0:  # an ordinary user cannot run this test
        done_by("root", act)


def test_a_copy_with_another_owner_has_no_special_bits() -> None:
    def prepare(place: Path) -> None:
        (place / "another's").write_bytes(b"one\n")
        (place / "another's").chmod(0o6755)

    def act(place: Path) -> None:
        with EndedSession(place, EDITED[0], trees.upper_of(*EDITED)) as session, kept("copied"):
            os.rename(place / "another's", session.real / "a")
            session.merge_all()
            assert trees.read(session.real) == EDITED[1]
            session.undo()
            assert trees.read(session.real) == {b"a": Node(FILE, b"one\n", 0o755)}
            assert status(session) == (users.NOBODY, users.NOBODY, 0o755)

    if os.getuid() == 0:  # only root can change the owner of a file
        done_by("user", act, prepare)


def test_an_uncopyable_file_of_another_owner_is_refused_before_any_change() -> None:
    def prepare(place: Path) -> None:
        (place / "another's").write_bytes(b"one\n")
        (place / "another's").chmod(0o600)

    def act(place: Path) -> None:
        with EndedSession(place, {}, []) as session, kept("copied"):
            os.rename(place / "another's", session.real / "a")
        with EndedSession.another(session) as other, kept("copied"):
            trees.write_upper(other.upper, [trees.UpperEntry(b"a", None)])
            with pytest.raises(CannotMerge, match="an undo could not restore it; nothing was changed"):
                other.merge_all()
            assert [path.name for path in other.real.iterdir()] == ["a"]

    if os.getuid() == 0:  # only root can change the owner of a file
        done_by("user", act, prepare)


def test_an_undo_restores_the_attributes_of_a_removed_directory() -> None:
    before = {b"d": Node(DIRECTORY, mode=0o755), b"d/e": Node(DIRECTORY, mode=0o755)}

    def act(place: Path) -> None:
        with EndedSession(place, before, trees.upper_of(before, {})) as session:
            for name in ("d", "d/e"):
                os.setxattr(session.real / name, "user.note", b"mine")
            session.merge_all()
            assert not (session.real / "d").exists()
            session.undo()
            assert [os.getxattr(session.real / name, "user.note") for name in ("d", "d/e")] == [b"mine"] * 2

    done_by("user", act)
