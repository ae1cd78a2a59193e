"""Access lists (ACLs): a file that takes another's place has that one's, none of the agent's comes, an undo brings all back."""

import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from agent_dev.fs.acl import LIST
from agent_dev.merge import merge
from agent_dev.overlay import lower_snapshot_take as base_take
from tests.harness import cuts, trees
from tests.harness.ended import Ended
from tests.harness.trees import DIRECTORY, FILE, Mark, Node, Tree

USER, MASK, NO_ID, OTHER_ID = 0x02, 0x10, 0xFFFFFFFF, 1
BASE: Tree = {b"text": Node(FILE, b"1\n2\n3\n", 0o660), b"gone": Node(FILE, b"gone", 0o660), b"plain": Node(FILE, b"1\n", 0o640)}
AGENT: list[Mark] = [
    Mark(b"text", Node(FILE, b"one\n2\n3\n", 0o660)),
    Mark(b"gone", None),
    Mark(b"plain", Node(FILE, b"2\n", 0o660)),
    Mark(b"new", Node(FILE, b"new", 0o660)),
    Mark(b"folder", Node(DIRECTORY, b"", 0o775)),
    Mark(b"folder/in", Node(FILE, b"in", 0o664)),
]


def access_list(user: int = OTHER_ID, bits: int = 0o6) -> bytes:
    """Return a list by which a user of an id may do what the owner may, the group and others nothing (acl(5))."""
    rows = ((0x01, bits, NO_ID), (USER, bits, user), (0x04, 0, NO_ID), (MASK, bits, NO_ID), (0x20, 0, NO_ID))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def has_lists(folder: str) -> bool:
    """Try whether a file system keeps access lists."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        try:
            os.setxattr(file.fileno(), LIST, access_list())
        except OSError:
            return False
    return True


def retake(session: Ended) -> None:
    """Take the base again: the lists are older than the session."""
    base_take.take(session.session.base, base_take.Wish(roots=(str(session.real),)))


MINE = access_list()


@pytest.fixture(params=["home", "beside"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ended]:
    """Files with lists of the user's, changed by an agent that gave lists of its own; slots with the merge or beside the tree."""
    if not has_lists(str(tmp_path)):
        pytest.skip("no access lists on this file system")
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder, Ended(Path(folder), BASE, []) as one, places(request.param):
        for name in ("text", "gone"):
            os.setxattr(one.real / name, LIST, MINE)
        retake(one)
        trees.write_upper(one.upper, AGENT)
        for name in ("text", "plain", "new", "folder/in", "folder"):
            os.setxattr(one.upper / name, LIST, access_list(2, 0o7 if name == "folder" else 0o6))
        yield one


@contextmanager
def places(where: str) -> Iterator[None]:
    if where == "home":
        yield
        return
    with mock.patch.object(merge, "_places", cuts._beside):
        yield


def lists(session: Ended) -> dict[str, tuple[bytes | None, int]]:
    """Return the list and the mode of all there is."""
    return {str(path.relative_to(session.real)): (list_of(path), path.stat().st_mode & 0o777) for path in session.real.rglob("*")}


def list_of(path: Path) -> bytes | None:
    return os.getxattr(path, LIST) if LIST in os.listxattr(path) else None


MERGED = {
    "text": (MINE, 0o660),
    "plain": (None, 0o600),  # of the agent's list the group had nothing
    "new": (None, 0o600),
    "folder": (None, 0o700),
    "folder/in": (None, 0o600),
}


def test_a_merged_file_has_the_list_of_the_one_whose_place_it_takes_and_none_of_the_agents_comes(session: Ended) -> None:
    session.merge_all()

    assert lists(session) == MERGED


def test_an_undo_brings_back_the_lists_that_were_there_and_a_redo_those_that_came(session: Ended) -> None:
    before = lists(session)
    session.merge_all()
    for _ in range(2):
        session.undo()
        assert lists(session) == before
        session.redo()
        assert lists(session) == MERGED


def test_a_list_that_the_user_gave_since_stays_with_what_the_user_changed(session: Ended) -> None:
    session.merge_all()
    since = access_list(user=3)
    (session.real / "text").write_bytes(b"one\n2\nmine\n")
    os.setxattr(session.real / "text", LIST, since)
    session.undo(is_three_way=True)
    assert ((session.real / "text").read_bytes(), list_of(session.real / "text")) == (b"1\n2\nmine\n", since)
    session.redo()
    assert ((session.real / "text").read_bytes(), list_of(session.real / "text")) == (b"one\n2\nmine\n", since)


def run_by_all(session: Ended) -> None:
    (session.upper / "text").chmod(0o771)


def only_mine(session: Ended) -> None:
    (session.upper / "text").chmod(0o600)


@pytest.mark.parametrize(("change", "mode", "mask"), [(run_by_all, 0o771, 0o7), (only_mine, 0o600, 0o0)])
def test_a_mode_of_the_agents_is_given_as_chmod_gives_it(
    session: Ended, change: Callable[[Ended], None], mode: int, mask: int
) -> None:
    change(session)
    session.merge_all()
    found = list_of(session.real / "text")
    assert found is not None
    bits = {tag: allowed for tag, allowed, _ in struct.iter_unpack("<HHI", found[4:])}

    assert ((session.real / "text").stat().st_mode & 0o777, bits[USER], bits[MASK]) == (mode, 0o6, mask)


def test_a_twin_by_a_hard_link_loses_no_list_of_what_is_kept(session: Ended) -> None:
    os.link(session.real / "gone", session.real.with_name("twin"))
    retake(session)
    before = lists(session)
    session.merge_all()
    session.undo()

    assert lists(session) == before
