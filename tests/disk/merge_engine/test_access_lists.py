"""POSIX ACLs: a merged file keeps the ACL of the file that it replaces, the agent's is not applied; an undo restores all."""

import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from agent_dev.fs.acl import XATTR
from agent_dev.merge import merge
from agent_dev.overlay import lower_snapshot_request, lower_snapshot_take
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.faults import power_cuts
from tests.harness.trees import DIRECTORY, FILE, Node, Tree, UpperEntry

USER, MASK, NO_ID, OTHER_ID = 0x02, 0x10, 0xFFFFFFFF, 1
BASE: Tree = {b"text": Node(FILE, b"1\n2\n3\n", 0o660), b"gone": Node(FILE, b"gone", 0o660), b"plain": Node(FILE, b"1\n", 0o640)}
AGENT: list[UpperEntry] = [
    UpperEntry(b"text", Node(FILE, b"one\n2\n3\n", 0o660)),
    UpperEntry(b"gone", None),
    UpperEntry(b"plain", Node(FILE, b"2\n", 0o660)),
    UpperEntry(b"new", Node(FILE, b"new", 0o660)),
    UpperEntry(b"folder", Node(DIRECTORY, b"", 0o775)),
    UpperEntry(b"folder/in", Node(FILE, b"in", 0o664)),
]


def access_list(user: int = OTHER_ID, bits: int = 0o6) -> bytes:
    """Return an ACL that gives one other user the owner's permissions, the group and others none (acl(5))."""
    rows = ((0x01, bits, NO_ID), (USER, bits, user), (0x04, 0, NO_ID), (MASK, bits, NO_ID), (0x20, 0, NO_ID))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def has_lists(folder: str) -> bool:
    """Return whether a file system supports ACLs."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        try:
            os.setxattr(file.fileno(), XATTR, access_list())
        except OSError:
            return False
    return True


def retake(session: EndedSession) -> None:
    """Take the lower snapshot again, as if the ACLs were older than the session."""
    lower_snapshot_take.take_snapshot(
        session.session.lower_snapshot, lower_snapshot_request.SnapshotRequest(roots=(str(session.real),))
    )


YOURS = access_list()


@pytest.fixture(params=["home", "tree"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EndedSession]:
    """Yield a session whose agent changed files with ACLs and set others; slots are with the merge or next to the tree."""
    if not has_lists(str(tmp_path)):
        pytest.skip("no access lists on this file system")
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder, EndedSession(Path(folder), BASE, []) as one, places(request.param):
        for name in ("text", "gone"):
            os.setxattr(one.real / name, XATTR, YOURS)
        retake(one)
        trees.write_upper(one.upper, AGENT)
        for name in ("text", "plain", "new", "folder/in", "folder"):
            os.setxattr(one.upper / name, XATTR, access_list(2, 0o7 if name == "folder" else 0o6))
        yield one


@contextmanager
def places(where: str) -> Iterator[None]:
    if where == "home":
        yield
        return
    with mock.patch.object(merge, "_stage_candidates", power_cuts._stage_in_tree):
        yield


def lists(session: EndedSession) -> dict[str, tuple[bytes | None, int]]:
    """Return the ACL and the mode of every file."""
    return {str(path.relative_to(session.real)): (list_of(path), path.stat().st_mode & 0o777) for path in session.real.rglob("*")}


def list_of(path: Path) -> bytes | None:
    return os.getxattr(path, XATTR) if XATTR in os.listxattr(path) else None


MERGED = {
    "text": (YOURS, 0o660),
    "plain": (None, 0o600),  # the agent's ACL gives the owning group nothing
    "new": (None, 0o600),
    "folder": (None, 0o700),
    "folder/in": (None, 0o600),
}


def test_a_merged_file_keeps_the_acl_of_the_replaced_one_not_the_agents(session: EndedSession) -> None:
    session.merge_all()

    assert lists(session) == MERGED


def test_an_undo_restores_the_former_acls_and_a_redo_the_new_ones(session: EndedSession) -> None:
    before = lists(session)
    session.merge_all()
    for _ in range(2):
        session.undo()
        assert lists(session) == before
        session.redo()
        assert lists(session) == MERGED


def test_an_acl_set_later_by_the_user_stays_with_the_users_change(session: EndedSession) -> None:
    session.merge_all()
    since = access_list(user=3)
    (session.real / "text").write_bytes(b"one\n2\nmine\n")
    os.setxattr(session.real / "text", XATTR, since)
    session.undo(is_three_way=True)
    assert ((session.real / "text").read_bytes(), list_of(session.real / "text")) == (b"1\n2\nmine\n", since)
    session.redo()
    assert ((session.real / "text").read_bytes(), list_of(session.real / "text")) == (b"one\n2\nmine\n", since)


def run_by_all(session: EndedSession) -> None:
    (session.upper / "text").chmod(0o771)


def only_yours(session: EndedSession) -> None:
    (session.upper / "text").chmod(0o600)


@pytest.mark.parametrize(("change", "mode", "mask"), [(run_by_all, 0o771, 0o7), (only_yours, 0o600, 0o0)])
def test_a_mode_of_the_agent_is_applied_as_by_chmod(
    session: EndedSession, change: Callable[[EndedSession], None], mode: int, mask: int
) -> None:
    change(session)
    session.merge_all()
    found = list_of(session.real / "text")
    assert found is not None
    bits = {tag: allowed for tag, allowed, _ in struct.iter_unpack("<HHI", found[4:])}

    assert ((session.real / "text").stat().st_mode & 0o777, bits[USER], bits[MASK]) == (mode, 0o6, mask)


def test_another_hard_link_keeps_its_acl(session: EndedSession) -> None:
    os.link(session.real / "gone", session.real.with_name("twin"))
    retake(session)
    before = lists(session)
    session.merge_all()
    session.undo()

    assert lists(session) == before
