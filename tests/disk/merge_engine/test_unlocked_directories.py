"""A merge, its undo and its redo restore the modes of nested directories that deny their owner access."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent_dev.errors import CannotMerge
from agent_dev.fs.unlocked_directories import UnlockedDirectories
from agent_dev.merge_engine import pending_marks
from tests.harness import owner_view, trees, users
from tests.harness.ended_session import EndedSession
from tests.harness.faults import faults
from tests.harness.scale import stride
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

BEFORE: Tree = {b"d": Node(DIRECTORY, b"", 0o755), b"d/e": Node(DIRECTORY, b"", 0o755), b"d/e/a": Node(FILE, b"one\n")}
LOCKED: Tree = {b"d": Node(DIRECTORY, b"", 0o222), b"d/e": Node(DIRECTORY, b"", 0o644), b"d/e/a": Node(FILE, b"two\n")}


def as_user(act: Callable[[Path], None]) -> None:
    """Call `act` in a new directory as an ordinary user, because root bypasses permissions."""
    with users.ordinary_users_directory(faults.memory_directory()) as place:
        users.call_as_ordinary_user(lambda: act(place))


def found(session: EndedSession) -> dict[bytes, tuple[int, bytes]]:
    entries = owner_view.call_as_owner(lambda: owner_view.read(os.fsencode(session.real)))
    return {path: (one.mode, one.content) for path, one in entries.items() if path != b"."}


def expected(tree: Tree) -> dict[bytes, tuple[int, bytes]]:
    return {path: (node.mode, node.content) for path, node in tree.items()}


def test_modes_of_nested_directories_are_merged_undone_and_redone() -> None:
    def act(place: Path) -> None:
        with EndedSession(place, BEFORE, trees.upper_of(BEFORE, LOCKED)) as session:
            assert session.merge_all().skipped == ()
            assert found(session) == expected(LOCKED)
            for command, tree in ((session.undo, BEFORE), (session.redo, LOCKED), (session.undo, BEFORE)):
                assert command().skipped == ()
                assert found(session) == expected(tree)

    as_user(act)


def test_attributes_of_a_directory_that_the_merge_makes_unreadable_are_merged() -> None:
    def act(place: Path) -> None:
        after = BEFORE | {b"d": Node(DIRECTORY, b"", 0o000), b"d/e": Node(DIRECTORY, b"", 0o000)}
        with EndedSession(place, BEFORE, trees.upper_of(BEFORE, after)) as session:
            upper = session.upper / "d"
            for folder in (upper, upper / "e"):
                folder.chmod(0o700)
            os.setxattr(upper / "e", "user.note", b"1")
            for folder in (upper / "e", upper):
                folder.chmod(0o000)
            assert session.merge_all().skipped == ()
            assert found(session) == expected(after)
            (session.real / "d").chmod(0o700)
            (session.real / "d/e").chmod(0o700)
            assert os.getxattr(session.real / "d/e", "user.note") == b"1"

    as_user(act)


def test_an_undo_keeps_the_mode_of_a_directory_that_became_inaccessible() -> None:
    def act(place: Path) -> None:
        after = BEFORE | {b"d/e": Node(DIRECTORY, b"", 0o000)}
        number, is_met = 1, True
        while is_met:
            (place / str(number)).mkdir()
            with EndedSession(place / str(number), BEFORE, trees.upper_of(BEFORE, after)) as session:
                session.merge_all()
                is_met = _undone_while_locking(session, number)
                assert found(session)[b"d"][0] == (0o444 if is_met else 0o755), number
                assert found(session)[b"d/e"][0] in (0o000, 0o755), number
                assert pending_marks.unfinished_merges(session.store) == ()
            number += stride(2)

    as_user(act)


def _undone_while_locking(session: EndedSession, number: int) -> bool:
    """Undo, and make `d` inaccessible before the `number`-th change to the disk; return whether the undo makes that many."""
    calls: list[str] = []

    def lock(call: str, _words: tuple[object, ...]) -> None:
        calls.append(call)
        if len(calls) == number:
            (session.real / "d").chmod(0o444)

    with faults.with_hook(lock), suppress(CannotMerge):  # raised if nothing was changed
        session.undo()
    return len(calls) >= number


def test_modes_are_restored_below_a_directory_that_was_restored_before() -> None:
    def act(place: Path) -> None:
        inner = place / "d/e"
        inner.mkdir(parents=True)
        records: list[tuple[bytes, int, int]] = []
        root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        unlocked = UnlockedDirectories(root, lambda *one: records.append(one))
        inner.chmod(0o100)
        (place / "d").chmod(0o000)
        unlocked.unlock(b"d/e", 0o700)
        inner.chmod(0o700)
        (place / "d").chmod(0o000)

        UnlockedDirectories(root, lambda *one: records.append(one)).restore(tuple(records))

        assert (place / "d").stat().st_mode & 0o777 == 0o000
        (place / "d").chmod(0o700)
        assert inner.stat().st_mode & 0o777 == 0o100
        os.close(root)

    as_user(act)


def test_a_mode_that_the_user_changes_while_it_is_recorded_is_not_lost() -> None:
    def act(place: Path) -> None:
        folder = place / "d"
        folder.mkdir(0o400)
        noted: list[int] = []

        def note(_path: bytes, _inode: int, mode: int) -> None:
            noted.append(mode)
            if len(noted) == 1:
                folder.chmod(0o440)  # the user does, at this moment

        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            opened = UnlockedDirectories(fd, note)
            assert opened.unlock(b"d", 0o700)
            assert (noted, folder.stat().st_mode & 0o777) == ([0o400, 0o440], 0o740)
            opened.restore()
            assert folder.stat().st_mode & 0o777 == 0o440
        finally:
            os.close(fd)

    as_user(act)


def test_a_mode_that_changes_all_the_time_ends_no_command() -> None:
    def act(place: Path) -> None:
        folder = place / "d"
        folder.mkdir(0o400)
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            opened = UnlockedDirectories(fd, lambda _path, _inode, mode: folder.chmod(mode ^ 0o040))
            assert opened.unlock(b"d", 0o700)
            assert folder.stat().st_mode & 0o700 == 0o700
        finally:
            os.close(fd)

    as_user(act)
