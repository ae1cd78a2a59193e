"""A file that was moved to an ignored path is deleted only together with its new path; other deletions stay deletions."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.fs.entry import FileType, Key
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.overlay.selection import EMPTY_SELECTION
from agent_dev.session import store
from tests.harness.ended_session import EndedSession
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Node, UpperEntry
from tui.update.toggle import toggle_all_safe

LINES = b"".join(b"line %d of the file\n" % number for number in range(20))
OTHER = b"".join(b"another %d\n" % number for number in range(20))
EDITED = LINES.replace(b"line 3", b"edited")
MOVED = {b"exact", b"edited", b"replaced", b"link", b"empty"}
REASON = "it was moved to ig/edited2, which git ignores; --take merges both"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[EndedSession]:
    base = {
        b".gitignore": Node(FILE, b"/ig/\n"),
        b"exact": Node(FILE, OTHER),
        b"edited": Node(FILE, LINES),
        b"replaced": Node(FILE, LINES + OTHER),
        b"link": Node(SYMLINK, b"target"),
        b"empty": Node(FILE, b""),
        b"plain": Node(FILE, b"".join(b"plain %d\n" % number for number in range(20))),
        b"renamed": Node(FILE, OTHER + b"renamed\n"),
        b"ig": Node(DIRECTORY, mode=0o755),
        b"ig/old": Node(FILE, b"old\n"),
    }
    marks = [
        UpperEntry(b"ig", Node(DIRECTORY, mode=0o755)),
        *(UpperEntry(path, None) for path in (b"exact", b"edited", b"link", b"empty", b"plain", b"renamed")),
        UpperEntry(b"replaced", Node(SYMLINK, b"ig/replaced")),
        UpperEntry(b"renamed2", Node(FILE, OTHER + b"renamed\n")),
        UpperEntry(b"ig/copy of renamed", Node(FILE, OTHER + b"renamed\n")),
        UpperEntry(b"ig/old", Node(FILE, OTHER)),
        UpperEntry(b"ig/edited2", Node(FILE, EDITED)),
        UpperEntry(b"ig/replaced", Node(FILE, LINES + OTHER)),
        UpperEntry(b"ig/link", Node(SYMLINK, b"target")),
        UpperEntry(b"ig/empty", Node(FILE, b"")),
        UpperEntry(b"ig/unrelated", Node(FILE, b"".join(b"unrelated %d\n" % number for number in range(20)))),
    ]
    with EndedSession(tmp_path, base, marks) as made:
        for words in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "one"]):
            subprocess.run(["git", *words], cwd=made.real, check=True)
        shutil.copy(made.real / ".git/index", f"{made.session.lower_snapshot}/index")
        home = str(tmp_path / "home")  # git is not below it
        store.write_record(made.session, {**store.read_record(made.session), "agent_home": home, "homes": home})
        for name in ("link", "empty"):  # a move keeps the time
            time = (made.real / name).lstat().st_mtime_ns
            os.utime(made.upper / "ig" / name, ns=(time, time), follow_symlinks=False)
        yield made


def test_all_leaves_both_halves_of_a_move_to_an_ignored_path(session: EndedSession) -> None:
    result = session.merge_selected(SelectionRequest(select_all=True))
    assert {os.fsencode(one.name) for one in session.real.iterdir()} == {b".git", b".gitignore", b"ig", b"renamed2"} | MOVED
    assert (session.real / "edited").read_bytes() == LINES
    assert os.listdir(session.real / "ig") == ["old"]
    assert {one.key.path: one.reason for one in result.skipped}[b"edited"] == REASON


def test_the_screen_does_not_select_half_of_such_a_move(session: EndedSession) -> None:
    changes = session.changes()
    selected, _ = toggle_all_safe(EMPTY_SELECTION, changes)
    assert {key.path for key in selected.keys} == {b"plain", b"renamed", b"renamed2"}


@pytest.mark.parametrize("path", sorted(MOVED))
def test_the_deletion_takes_the_new_path_with_it(session: EndedSession, path: bytes) -> None:
    before = {one.key.path: one for one in session.changes().changes}[path].before
    assert before is not None
    content = before.target if before.type is FileType.SYMLINK else (session.real / os.fsdecode(path)).read_bytes()
    result = session.merge_selected(SelectionRequest(paths=(Key(0, path),)))
    place = session.real / os.fsdecode(next(one.key.path for one in result.applied if one.key.path.startswith(b"ig/")))
    assert len(result.applied) == 2
    found = os.fsencode(os.readlink(place)) if place.is_symlink() else place.read_bytes()
    assert found == content.replace(LINES, EDITED) if path == b"edited" else found == content


def test_the_ignored_path_can_be_taken_alone(session: EndedSession) -> None:
    session.merge(b"ig/edited2")
    assert (session.real / "edited").read_bytes() == LINES
    assert (session.real / "ig/edited2").read_bytes() == EDITED
