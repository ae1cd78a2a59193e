"""An undo or redo keeps modes, extended attributes and ACLs that the user set after the merge: such files are skipped."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs import durable
from agent_dev.fs.entry import Key
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.merge_engine import merge_execution
from tests.harness import owner_view, trees, users
from tests.harness.ended_session import EndedSession
from tests.harness.trees import DIRECTORY, FILE, Node, Tree

BASE: Tree = {b"edited": Node(FILE, b"one\n"), b"other": Node(FILE, b"one\n")}
AGENT: Tree = {
    b"edited": Node(FILE, b"two\n"),
    b"other": Node(FILE, b"two\n"),
    b"added": Node(FILE, b"new\n"),
    b"empty": Node(DIRECTORY, b"", 0o755),
    b"dir": Node(DIRECTORY, b"", 0o755),
    b"dir/sub": Node(DIRECTORY, b"", 0o755),
    b"dir/sub/in": Node(FILE, b"in\n"),
}
FOLDERS: Tree = {b"other": Node(FILE, b"one\n"), b"replaced": Node(DIRECTORY, b"", 0o755), b"gone": Node(DIRECTORY, b"", 0o755)}
WITHOUT: Tree = {b"other": Node(FILE, b"two\n"), b"replaced": Node(FILE, b"new\n")}
# u::rw-, u:1:r--, g::r--, m::r--, o::r-- (linux/posix_acl_xattr.h)
LIST = bytes.fromhex("0200000001000600ffffffff020004000100000004000400ffffffff10000400ffffffff20000400ffffffff")
SET = {"user.mine": b"1", "system.posix_acl_access": LIST}
FOLDER_LIST = LIST.replace(bytes.fromhex("01000600"), bytes.fromhex("01000700"))
ACTIONS: dict[str, Callable[[Path], None]] = {
    "mode": lambda path: path.chmod(0o711),
    "attribute": lambda path: os.setxattr(path, "user.mine", b"1"),
    "ACL": lambda path: os.setxattr(path, "system.posix_acl_access", FOLDER_LIST),
}


@pytest.mark.parametrize("attribute", SET)
@pytest.mark.parametrize("path", ["edited", "added", "empty", "dir", "dir/sub", "dir/sub/in"])
def test_an_undo_keeps_files_that_later_got_attributes_from_the_user(tmp_path: Path, path: str, attribute: str) -> None:
    with EndedSession(tmp_path, BASE, trees.upper_of(BASE, AGENT)) as session:
        assert session.merge_all().is_session_empty
        place = session.real / path
        value = FOLDER_LIST if place.is_dir() and attribute.startswith("system") else SET[attribute]
        os.setxattr(place, attribute, value)
        undone = session.undo()
        assert os.getxattr(place, attribute) == value
        assert (session.real / "other").read_bytes() == b"one\n"
        if path not in ("dir", "dir/sub"):  # a directory that existed only for its contents is not reported
            assert [one.key.path for one in undone.skipped] == [os.fsencode(path)]
        os.removexattr(place, attribute)
        if path == "edited":
            session.undo()
            assert place.read_bytes() == b"one\n"


@pytest.mark.parametrize("attribute", SET)
@pytest.mark.parametrize("path", ["edited", "added"])
def test_an_undo_keeps_attributes_of_files_touched_since(tmp_path: Path, path: str, attribute: str) -> None:
    with EndedSession(tmp_path, BASE, trees.upper_of(BASE, AGENT)) as session:
        session.merge_all()
        os.setxattr(session.real / path, attribute, SET[attribute])
        (session.real / path).touch()
        assert [one.key.path for one in session.undo().skipped] == [os.fsencode(path)]
        assert os.getxattr(session.real / path, attribute) == SET[attribute]


@pytest.mark.parametrize("path", ["empty", "turned", "dir", "dir/sub"])
def test_an_undo_keeps_new_directories_whose_mode_the_user_changed(tmp_path: Path, path: str) -> None:
    base = BASE | {b"turned": Node(FILE, b"one\n")}
    agent = AGENT | {b"turned": Node(DIRECTORY, b"", 0o755)}
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as session:
        session.merge_all()
        (session.real / path).chmod(0o711)
        undone = session.undo()
        assert (session.real / path).stat().st_mode & 0o777 == 0o711
        assert (session.real / "other").read_bytes() == b"one\n"
        assert not (session.real / "dir/sub/in").exists()
        reported = [] if path in ("dir", "dir/sub") else [os.fsencode(path)]
        assert [one.key.path for one in undone.skipped] == reported
        (session.real / path).chmod(0o755)
        if reported:
            session.undo()
            assert trees.read(session.real) == base


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("path", ["replaced", "gone"])
def test_a_redo_keeps_directories_that_the_user_changed_since_the_undo(tmp_path: Path, path: str, action: str) -> None:
    with EndedSession(tmp_path, FOLDERS, trees.upper_of(FOLDERS, WITHOUT)) as session:
        session.merge_all()
        session.undo()
        ACTIONS[action](session.real / path)
        before = owner_view.entries_below(session.real)[os.fsencode(path)]
        assert [one.key.path for one in session.redo().skipped] == [os.fsencode(path)]
        assert owner_view.entries_below(session.real)[os.fsencode(path)] == before
        assert (session.real / "other").read_bytes() == b"two\n"


def test_a_directory_with_attributes_is_removed_again_by_a_redo(tmp_path: Path) -> None:
    with EndedSession(tmp_path, FOLDERS, []) as first:
        for path in ("replaced", "gone"):
            ACTIONS["attribute"](first.real / path)
            ACTIONS["ACL"](first.real / path)
        with EndedSession.another(first) as session:
            trees.write_upper(session.upper, trees.upper_of(FOLDERS, WITHOUT))
            session.merge_all()
            for _ in range(2):
                session.undo()
                assert session.redo().skipped == ()
                assert trees.read(session.real) == WITHOUT


@pytest.mark.parametrize("attribute", ["system.posix_acl_access", "system.posix_acl_default"])
@pytest.mark.parametrize("is_staged_in_tree", [False, True])
def test_an_undo_restores_the_acls_of_removed_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: str, *, is_staged_in_tree: bool
) -> None:
    if is_staged_in_tree:  # as if the state directory were on another file system
        monkeypatch.setattr(merge_execution, "find_stage_path", lambda places, _: places[-1])
    with EndedSession(tmp_path, FOLDERS, []) as first:
        for path in ("replaced", "gone"):
            os.setxattr(first.real / path, attribute, FOLDER_LIST)
        before = owner_view.entries_below(first.real)
        with EndedSession.another(first) as session:
            trees.write_upper(session.upper, trees.upper_of(FOLDERS, WITHOUT))
            session.merge_all()
            session.undo()
            assert owner_view.entries_below(session.real) == before


def test_an_undo_restores_attributes_of_an_unreadable_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_execution, "find_stage_path", lambda places, _: places[-1])  # as on another file system

    def act() -> None:
        with EndedSession(folder, BASE, []) as first:
            os.setxattr(first.real / "edited", "user.mine", b"1")
            (first.real / "edited").chmod(0o200)
            before = owner_view.entries_below(first.real)
            with EndedSession.another(first) as session:
                trees.write_upper(session.upper, trees.upper_of(BASE, AGENT))
                os.setxattr(session.upper / "edited", "user.agents", b"1")
                (session.upper / "edited").chmod(0o200)
                session.merge_all()
                after = owner_view.entries_below(session.real)
                session.undo()
                assert owner_view.entries_below(session.real) == before
                session.redo()
                assert owner_view.entries_below(session.real) == after

    with users.ordinary_users_directory() as folder:
        users.call_as_ordinary_user(act)


def test_an_undo_keeps_new_directories_that_got_a_default_acl_from_the_user(tmp_path: Path) -> None:
    with EndedSession(tmp_path, BASE, trees.upper_of(BASE, AGENT)) as session:
        session.merge_all()
        os.setxattr(session.real / "empty", "system.posix_acl_default", FOLDER_LIST)
        assert [one.key.path for one in session.undo().skipped] == [b"empty"]


def test_an_attribute_that_survived_an_undo_survives_the_next_merge(tmp_path: Path) -> None:
    base: Tree = {b"d": Node(DIRECTORY, b"", 0o755), b"d/a": Node(FILE, b"a")}
    agent = base | {b"d": Node(DIRECTORY, b"", 0o700)}
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as session:
        session.merge_all()
        ACTIONS["attribute"](session.real / "d")
        session.undo()
        assert trees.read(session.real) == base
        session.merge_all()
        assert trees.read(session.real) == agent
        assert os.getxattr(session.real / "d", "user.mine") == b"1"


@pytest.mark.parametrize("action", ["mode", "attribute"])
def test_metadata_set_during_an_undo_survives_the_next_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    with EndedSession(tmp_path, BASE, trees.upper_of(BASE, AGENT)) as session:
        path = session.real / "edited"
        session.merge_all()
        moments: list[str] = []

        def set_when_restored(call: str, _: tuple[object, ...]) -> None:
            if not moments and path.read_bytes() == b"one\n":
                ACTIONS[action](path)
                moments.append(call)

        monkeypatch.setattr(durable, "hook", set_when_restored)
        session.undo()
        monkeypatch.setattr(durable, "hook", None)
        assert moments
        before = owner_view.entries_below(session.real)[b"edited"]
        session.merge_all()
        now = owner_view.entries_below(session.real)[b"edited"]
        assert path.read_bytes() == b"two\n"
        assert (now.mode, now.attributes) == (before.mode, before.attributes)


def test_an_undo_reverts_attributes_of_the_agent(tmp_path: Path) -> None:
    with EndedSession(tmp_path, BASE, trees.upper_of(BASE, AGENT)) as session:
        for path in ("edited", "added", "empty", "dir/sub", "dir/sub/in"):
            os.setxattr(session.upper / path, "user.agent", b"1")
        assert session.merge_all().is_session_empty
        assert os.getxattr(session.real / "dir/sub", "user.agent") == b"1"
        (session.real / "edited").touch()
        assert session.undo().skipped == ()
        assert trees.read(session.real) == BASE


def test_a_second_undo_stays_at_a_merge_that_cannot_be_undone_further(tmp_path: Path) -> None:
    with EndedSession(tmp_path, BASE, trees.upper_of(BASE, AGENT)) as session:
        older = session.merge(b"other").id
        newer = session.merge(b"edited", b"added").id
        (session.real / "edited").write_bytes(b"mine\n")
        for earlier in ("", older):
            undone = session.undo()
            assert (undone.merge, undone.earlier) == (newer, earlier)
            assert [one.key.path for one in undone.skipped] == [b"edited"]
        assert (session.real / "other").read_bytes() == b"two\n"


READ_ONLY: Tree = {b"other": Node(FILE, b"two\n"), b"dir": Node(DIRECTORY, b"", 0o555), b"dir/in": Node(FILE, b"in\n")}


@pytest.mark.parametrize("action", ["edit", "attribute"])
@pytest.mark.parametrize("mode", [0o555, 0o444])
def test_a_new_directory_that_an_undo_keeps_has_its_merged_mode(action: str, mode: int) -> None:
    base: Tree = {b"other": Node(FILE, b"one\n")}
    agent = {**READ_ONLY, b"dir": Node(DIRECTORY, b"", mode)}

    def act() -> None:
        with EndedSession(folder, base, trees.upper_of(base, agent)) as session:
            session.merge_all()
            place = session.real / "dir"
            place.chmod(0o755)
            if action == "edit":
                (place / "in").chmod(0)
            else:
                os.setxattr(place, "user.mine", b"1")
            place.chmod(mode)
            for _ in range(2 if action == "edit" else 1):  # a second undo finds the directory as the first left it
                session.undo()
                assert place.stat().st_mode & 0o777 == mode
            assert (session.real / "other").read_bytes() == b"one\n"

    with users.ordinary_users_directory() as folder:
        users.call_as_ordinary_user(act)


def test_a_merge_of_attributes_leaves_the_mode_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base: Tree = {b"dir": Node(DIRECTORY, b"", 0o755), b"dir/in": Node(FILE, b"in\n")}
    set_attribute = durable.set_attribute

    def set_and_change_mode(fd: int, name: str, value: bytes) -> None:
        set_attribute(fd, name, value)
        os.fchmod(fd, 0o700)  # the user does, at this moment

    with EndedSession(tmp_path, base, trees.upper_of(base, base)) as session:
        (session.upper / "dir").mkdir()
        os.setxattr(session.upper / "dir", "user.agents", b"1")
        monkeypatch.setattr(durable, "set_attribute", set_and_change_mode)
        session.merge_all()
        assert os.getxattr(session.real / "dir", "user.agents") == b"1"
        assert (session.real / "dir").stat().st_mode & 0o777 == 0o700


def test_an_undo_returns_metadata_of_a_directory_that_the_user_declined(tmp_path: Path) -> None:
    base: Tree = {b"dir": Node(DIRECTORY, b"", 0o755), b"dir/in": Node(FILE, b"one\n")}
    agent = {**base, b"dir/in": Node(FILE, b"two\n")}
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as session:
        os.setxattr(session.upper / "dir", "user.agents", b"1")
        os.setxattr(session.real / "dir", "user.mine", b"1")
        before = {change.key.path: change.kind for change in session.changes().changes}
        declined = ((Key(0, b"dir"), ConflictSide.YOURS),)
        session.merge_selected(SelectionRequest(paths=(Key(0, b"dir/in"),), resolutions=declined))
        assert session.changes().changes == ()
        session.undo()
        assert {change.key.path: change.kind for change in session.changes().changes} == before
        assert os.getxattr(session.upper / "dir", "user.agents") == b"1"
