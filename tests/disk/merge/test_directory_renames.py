"""A directory that was renamed as a whole: its files are renames, are applied together, and are one row of `status`."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.cli.render.format import change_rows
from agent_dev.fs.entry import FileType, Key
from agent_dev.merge.patches import PatchWriter
from agent_dev.merge.select_by_options import SelectionRequest
from agent_dev.overlay.patch_write import PatchFormat
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import FILE, Node, UpperEntry

DIRECTORY = FileType.DIRECTORY
FOLDER = Node(DIRECTORY, mode=0o755)


def text(number: int) -> bytes:
    return b"".join(b"file %d line %d\n" % (number, line) for line in range(9))


MOVED = {
    b"a.txt": Node(FILE, text(1)),
    b"sub/b.txt": Node(FILE, text(2)),
    b"sub/c.txt": Node(FILE, text(3)),
    b"__init__.py": Node(FILE, b""),
    b"sub/link": Node(FileType.SYMLINK, b"b.txt"),
    b"run.sh": Node(FILE, b"#!/bin/sh\nmake\n", 0o755),
}
EDITED = text(3) + b"more\n"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[EndedSession]:
    before = {b"src": FOLDER, b"src/sub": FOLDER, b"keep": Node(FILE, b"keep\n")}
    before |= {b"src/" + path: node for path, node in MOVED.items()}
    marks = [UpperEntry(b"src", None), UpperEntry(b"lib", FOLDER), UpperEntry(b"lib/sub", FOLDER)]
    new = {**MOVED, b"sub/c.txt": Node(FILE, EDITED)}
    marks += [UpperEntry(b"lib/" + path, node) for path, node in new.items()]
    with EndedSession(tmp_path, before, marks) as made:
        yield made


def files(session: EndedSession) -> set[bytes]:
    return {path for path, node in trees.read(session.real).items() if node.type is not DIRECTORY}


def status(session: EndedSession) -> list[str]:
    review = session.review()
    try:
        return [*change_rows(review.assess_with_counts(), ["/src"])]
    finally:
        review.close()


def test_all_files_of_the_directory_are_renames(session: EndedSession) -> None:
    changes = session.changes()
    assert {new.path: old.path for new, old in changes.directory_renames.items()} == {b"lib": b"src"}
    assert {new.path: old.path for new, old in changes.renames.items()} == {b"lib/" + path: b"src/" + path for path in MOVED}


def test_status_shows_one_row_with_the_lines_that_changed(session: EndedSession) -> None:
    assert status(session) == ["→ renamed  lib/ (from src/) 6 files +1 -0"]


def test_all_moves_the_whole_directory(session: EndedSession) -> None:
    session.merge_selected(SelectionRequest(select_all=True))
    assert files(session) == {b"keep", *(b"lib/" + path for path in MOVED)}
    assert (session.real / "lib/sub/c.txt").read_bytes() == EDITED
    session.undo()
    assert files(session) == {b"keep", *(b"src/" + path for path in MOVED)}


def test_git_applies_the_patch(session: EndedSession, tmp_path: Path) -> None:
    review = session.review()
    try:
        patch = b"".join(PatchWriter(review, review.folded.changes, lambda key: key.path, PatchFormat()))
    finally:
        review.close()
    subprocess.run(["git", "apply"], input=patch, cwd=session.real, check=True)
    assert files(session) == {b"keep", *(b"lib/" + path for path in MOVED)}


@pytest.mark.parametrize("edited", ["src/sub/b.txt", "lib/sub/b.txt"])
def test_a_file_in_conflict_is_applied_at_neither_path(session: EndedSession, edited: str) -> None:
    (session.real / edited).parent.mkdir(parents=True, exist_ok=True)
    (session.real / edited).write_bytes(b"mine\n")
    before = files(session) & {b"src/sub/b.txt", b"lib/sub/b.txt"}
    session.merge_selected(SelectionRequest(select_all=True))
    assert files(session) & {b"src/sub/b.txt", b"lib/sub/b.txt"} == before
    assert (session.real / edited).read_bytes() == b"mine\n"
    assert b"lib/a.txt" in files(session)


def test_a_directory_with_something_left_in_it_was_not_renamed_whole(tmp_path: Path) -> None:
    before = {
        b"src": FOLDER,
        b"src/sub": FOLDER,
        **{b"src/" + path: node for path, node in MOVED.items()},
        b"src/left": Node(FILE, b"left\n"),
    }
    gone = [UpperEntry(b"src", FOLDER), UpperEntry(b"src/sub", None)]
    gone += [UpperEntry(b"src/" + path, None) for path in MOVED if b"/" not in path]
    new = [UpperEntry(b"lib", FOLDER), UpperEntry(b"lib/sub", FOLDER)]
    new += [UpperEntry(b"lib/" + path, node) for path, node in MOVED.items()]
    with EndedSession(tmp_path, before, [*gone, *new]) as session:
        assert {new.path: old.path for new, old in session.changes().directory_renames.items()} == {b"lib/sub": b"src/sub"}
        assert Key(0, b"lib/__init__.py") not in session.changes().renames
