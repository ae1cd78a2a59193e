"""New directories are applied and undone by one rename, and the user's later changes in them are kept as anywhere else."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_dev.errors import CannotMerge, CannotUndo, RecoveryRequired
from agent_dev.fs import durable
from agent_dev.merge import history, merge, recover
from agent_dev.merge_engine import journal_file, pending_marks
from agent_dev.merge_engine.journal import Operation, OpKind
from agent_dev.overlay.changes import ChangeKind
from agent_dev.overlay.selection import select_all
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.faults import faults
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, Tree, UpperEntry

FOLDER = Node(DIRECTORY, b"", 0o755)
BEFORE: Tree = {b"kept": Node(FILE, b"kept")}
NEW: Tree = {
    b"new": FOLDER,
    b"new/a": Node(FILE, b"a"),
    b"new/deep": Node(DIRECTORY, b"", 0o700),
    b"new/deep/b": Node(FILE, b"b", 0o600),
    b"new/deep/empty": FOLDER,
    b"new/link": Node(SYMLINK, b"deep/b", 0o777),
}
AFTER: Tree = {**BEFORE, **NEW}


@contextmanager
def ended(tree: Tree = AFTER) -> Iterator[EndedSession]:
    with TemporaryDirectory() as folder, EndedSession(Path(folder), BEFORE, trees.upper_of(BEFORE, tree, frozenset())) as session:
        yield session


def free(session: EndedSession) -> None:
    """Release the session's lock, as if the command was killed."""
    store.unlock_session(session.session)
    session.session = store.Session(session.session.id, session.session.folder)


def operations(session: EndedSession) -> list[Operation]:
    (name,) = (name for name in os.listdir(session.store.merges) if name != "pending")
    return list(journal_file.read_journal(f"{session.store.merges}/{name}").ops)


def moves_of(act: Callable[[], object]) -> list[bytes]:
    """Return the names that `act` moves into place."""
    names: list[bytes] = []

    def note(call: str, words: tuple[object, ...]) -> None:
        if call == "move" and isinstance(words[3], bytes):
            names.append(words[3])

    with faults.with_hook(note):
        act()
    return names


def test_a_new_directory_is_applied_and_undone_by_one_rename() -> None:
    with ended() as session:
        inodes = {path: os.lstat(session.upper / os.fsdecode(path)).st_ino for path in NEW}

        assert moves_of(session.merge_all) == [b"1", b"new"]
        assert trees.read(session.real) == AFTER
        assert {path: os.lstat(session.real / os.fsdecode(path)).st_ino for path in NEW} == inodes
        assert moves_of(session.undo) == [b"1", b"new"]
        assert (trees.read(session.real), session.kinds()) == (BEFORE, trees.differences(BEFORE, AFTER))
        assert moves_of(session.redo) == [b"1", b"new"]
        assert (trees.read(session.real), session.kinds()) == (AFTER, {})


def test_overlay_attributes_are_not_applied() -> None:
    with ended() as session:
        for name in ("new", "new/deep"):
            os.setxattr(session.upper / name, "user.overlay.opaque", b"y")
            os.setxattr(session.upper / name, "user.own", b"own")
        session.merge_all()

        for name in ("new", "new/deep"):
            assert os.listxattr(session.real / name) == ["user.own"]
        assert [op.kind for op in operations(session)] == [OpKind.ATTACH]


SPOILED: dict[str, Callable[[EndedSession], object]] = {
    "a second name": lambda one: os.link(one.upper / "new/deep/b", one.upper / "twin"),
    "an attribute of the overlay": lambda one: os.setxattr(one.upper / "new/deep/b", "user.overlay.origin", b"x"),
    "special bits": lambda one: (one.upper / "new/deep/b").chmod(0o4755),
    "special bits of a directory": lambda one: (one.upper / "new/deep").chmod(0o2755),
    "a FIFO": lambda one: os.mkfifo(one.upper / "new/deep/fifo", 0o600),
    "a socket": lambda one: os.mknod(one.upper / "new/deep/socket", 0o140600),
    "a repository in it": lambda one: os.makedirs(one.upper / "new/deep/.git/objects"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_partly_selected_or_changed_directory_is_not_renamed_as_a_whole(how: str) -> None:
    with ended() as session:
        SPOILED[how](session)
        inode = (session.upper / "new").stat().st_ino
        session.merge_all()

        assert (session.real / "new").stat().st_ino != inode
        assert (session.real / "new/deep/b").read_bytes() == b"b"
        assert not (session.real / "new/deep/b").stat().st_mode & 0o7000
        assert (session.real / "new/deep/b").stat().st_nlink == 1
        assert os.listxattr(session.real / "new/deep/b") == []
        assert not (session.real / "new/deep/.git").exists()
        assert not (session.real / "new/deep/socket").exists()


def test_unselected_entries_stay_in_the_session() -> None:
    with ended() as session:
        session.merge(b"new/deep/b")

        assert set(trees.read(session.real)) == {b"kept", b"new", b"new/deep", b"new/deep/b"}
        assert session.kinds() == dict.fromkeys((b"new/a", b"new/deep/empty", b"new/link"), ChangeKind.ADDED)


def test_a_complete_subdirectory_is_renamed_as_a_whole() -> None:
    with ended() as session:
        inode = (session.upper / "new/deep").stat().st_ino
        session.merge(b"new/deep/b", b"new/deep/empty")

        assert (session.real / "new/deep").stat().st_ino == inode
        assert session.kinds() == dict.fromkeys((b"new/a", b"new/link"), ChangeKind.ADDED)


# Changes of the user in a merged directory

YOURS = Node(FILE, b"mine")
ACTIONS: dict[str, tuple[Callable[[Path], object], Tree, set[bytes]]] = {
    "edit": (lambda new: (new / "deep/b").write_bytes(b"mine"), {b"new/deep/b": Node(FILE, b"mine", 0o600)}, {b"new/deep/b"}),
    "add": (lambda new: (new / "deep/mine").write_bytes(b"mine"), {b"new/deep/mine": Node(FILE, b"mine")}, set()),
    "remove": (lambda new: (new / "deep/b").unlink(), {}, {b"new/deep/b"}),
    "fill": (lambda new: (new / "deep/empty/mine").write_bytes(b"mine"), {b"new/deep/empty/mine": YOURS}, {b"new/deep/empty"}),
    "move it away": (lambda new: new.rename(new.parent / "away"), {}, {path for path in NEW if path.count(b"/")} - {b"new/deep"}),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_an_undo_reverts_the_rest_and_keeps_the_users_changes(action: str) -> None:
    act, yours, left = ACTIONS[action]
    with ended() as session:
        session.merge_all()
        act(session.real / "new")
        undone = session.undo()

        tree = trees.read(session.real)
        files = {path: node for path, node in tree.items() if node.type is not DIRECTORY and not path.startswith(b"away")}
        assert files == {b"kept": BEFORE[b"kept"], **yours}
        assert {one.key.path for one in undone.skipped} == left
        back = trees.differences(BEFORE, AFTER).keys() - left
        assert session.kinds().keys() - left == back
        assert pending_marks.unfinished_merges(session.store) == ()


@pytest.mark.parametrize("action", ACTIONS)
def test_a_partial_undo_killed_anywhere_can_be_repeated(action: str) -> None:
    act, yours, _ = ACTIONS[action]
    number, goes_on = 1, True
    while goes_on:
        with ended() as session:
            session.merge_all()
            act(session.real / "new")
            now = trees.read(session.real)
            free(session)
            goes_on = faults.killed_at(number, session.undo)
            recover.recover_root(session.store, str(session.real), ENVIRON, lambda _: None)
            seen = trees.read(session.real)
            assert {path: seen.get(path) for path in yours} == yours
            if seen == now and action != "move it away":
                session.undo()
                seen = trees.read(session.real)
            assert b"new/link" not in seen, (
                number,
                {p: (now.get(p), seen.get(p)) for p in {*now, *seen} if now.get(p) != seen.get(p)},
            )
            assert {path: seen.get(path) for path in yours} == yours
        number += 3


def test_recovery_of_a_killed_merge_keeps_the_users_changes_in_it() -> None:
    with ended() as session:
        free(session)
        assert faults.killed_at(_until_durable(), session.merge_all)
        (session.real / "new/deep/b").write_bytes(b"mine")
        (merge_id,) = pending_marks.unfinished_merges(session.store)

        with pytest.raises(RecoveryRequired):
            recover.recover_root(session.store, str(session.real), ENVIRON, lambda _: None)
        assert (session.real / "new/deep/b").read_bytes() == b"mine"
        assert (session.real / "new/a").read_bytes() == b"a"
        with pytest.raises(CannotUndo):
            session.undo(merge_id)
        assert (session.real / "new/deep/b").read_bytes() == b"mine"
        assert not (session.real / "new/a").exists()
        assert {b"new/a", b"new/link"} <= session.kinds().keys()


def _until_durable() -> int:
    """Return the number of the first change to the disk after the rename to the target path."""
    calls: list[tuple[str, object]] = []
    with ended() as session, faults.with_hook(lambda call, words: calls.append((call, words[-1]))):
        session.merge_all()
    return calls.index(("move", b"new")) + 2


def test_an_obstacle_at_the_target_stays_and_the_session_keeps_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    with ended() as session:
        before, real_move = session.kinds(), durable.rename_new

        def late(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
            if new == b"new" and not (session.real / "new").exists():
                (session.real / "new").write_bytes(b"mine")
            real_move(old_folder, old, new_folder, new)

        monkeypatch.setattr(durable, "rename_new", late)
        merged = session.merge_all()
        monkeypatch.setattr(durable, "rename_new", real_move)

        assert merged.applied == ()
        assert (session.real / "new").read_bytes() == b"mine"
        (session.real / "new").unlink()
        assert session.kinds() == before


def test_an_obstacle_at_one_target_does_not_block_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with ended({**AFTER, b"x": Node(FILE, b"x"), b"y": Node(FILE, b"y")}) as session:
        before, real_move = session.kinds(), durable.rename_new

        def late(old_folder: int, old: bytes, new_folder: int, new: bytes) -> None:
            for name in {b"new", b"x"} & {new}:
                (session.real / os.fsdecode(name)).write_bytes(b"mine")
            real_move(old_folder, old, new_folder, new)

        monkeypatch.setattr(durable, "rename_new", late)
        merged = session.merge_all()
        monkeypatch.setattr(durable, "rename_new", real_move)

        assert [change.key.path for change in merged.applied] == [b"y"]
        for name in ("new", "x"):
            assert (session.real / name).read_bytes() == b"mine"
            (session.real / name).unlink()
        assert session.kinds() == {path: kind for path, kind in before.items() if path != b"y"}


def test_a_redo_skips_a_directory_changed_in_the_session() -> None:
    with ended() as session:
        session.merge_all()
        session.undo()
        (session.upper / "new/a").write_bytes(b"more")
        undone = session.redo()

        assert [one.key.path for one in undone.skipped] == [b"new"]
        assert trees.read(session.real) == BEFORE
        assert (session.upper / "new/a").read_bytes() == b"more"


def test_an_undo_returns_entries_next_to_new_ones_of_the_session() -> None:
    with ended() as session:
        session.merge_all()
        trees.write_upper(session.upper, [UpperEntry(b"new", FOLDER), UpperEntry(b"new/a", Node(FILE, b"newer"))])
        session.undo()

        assert (session.upper / "new/a").read_bytes() == b"newer"
        assert (session.upper / "new/deep/b").read_bytes() == b"b"
        assert trees.read(session.real) == BEFORE


def test_a_change_modified_after_the_review_is_not_applied() -> None:
    with ended() as session:
        review = session.review()
        selected = select_all(review.changes, risky=True, ignored=True)
        planned = merge.plan_selection(review, selected, selected.keys)
        (session.upper / "new/a").write_bytes(b"other, and longer")
        with pytest.raises(CannotMerge):
            merge.apply_plan(review, planned, session.store)
        review.close()

        assert trees.read(session.real) == BEFORE
        assert session.kinds() == trees.differences(BEFORE, AFTER)


def test_the_list_of_merges_names_every_applied_change() -> None:
    with ended() as session:
        merged = session.merge_all()
        here = CommandContext(session.store, str(session.real), str(session.real), ENVIRON)
        (one,) = history.list_merges(here)
        same, changes = history.with_changes(here, one)
        assert (same, {change.key for change in changes}) == (one, {change.key for change in merged.applied})
        assert (one.state, one.changes, one.applied) == ("merged", len(merged.applied), len(merged.applied))


def test_undo_and_redo_list_paths_in_the_order_of_a_session() -> None:
    names = [b"new/f%d" % number for number in range(40)]
    more = {name: Node(FILE, name) for name in names} | {b"a": Node(FILE, b"first")}
    with ended(AFTER | more) as session:
        listed = [change.key for change in session.merge_all().applied]
        (session.real / "a").write_bytes(b"mine")
        for name in reversed(names[::3]):
            (session.real / os.fsdecode(name)).write_bytes(b"mine")
        undone = session.undo()
        left = [one.key for one in undone.skipped]

        assert left == [key for key in listed if key.path in (b"a", *names[::3])]
        assert list(undone.paths) == [key for key in listed if key not in left]
        assert session.redo().paths == undone.paths
