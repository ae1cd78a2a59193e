"""The user's editor: a read-only copy of the agent's file at a line; a conflict, of which an unfinished edit is kept."""

import os
import shutil
from pathlib import Path

import pytest

from agent_dev.cli.editor import ConflictEditor, view_file
from agent_dev.cli.screen.review_source import ReviewSource
from agent_dev.diff.merge3 import ConflictSide, merge_lines
from agent_dev.errors import CommandFailed, UsageError
from agent_dev.fs.entry import FileType, Key
from tests.harness import trees
from tests.harness.ended_session import EndedSession
from tests.harness.trees import Node

SCRIPT = """#!/bin/sh
for word; do echo "$word" >>"$SEEN"; done
for word; do last=$word; done
cat "$last" >>"$SEEN"; stat -c %a "$last" >>"$SEEN"; exit "${STATUS:-0}"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for name in ("vim", "other"):
        (tmp_path / name).write_text(SCRIPT)
        (tmp_path / name).chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SEEN": str(tmp_path / "seen"), "EDITOR": "vim -R"}


@pytest.mark.parametrize(("editor", "words"), [("vim -R", ["-R", "+7"]), ("other", [])])
def test_the_editor_gets_a_read_only_copy_at_the_line(
    tmp_path: Path, environ: dict[str, str], editor: str, words: list[str]
) -> None:
    view_file(b"src/a b.py", b"text\n", 7, {**environ, "EDITOR": editor})
    *given, path, text, mode = (tmp_path / "seen").read_text().splitlines()
    assert (given, os.path.basename(path), text, mode) == (words, "a b.py", "text", "400")
    assert not os.path.exists(path)


def test_a_failed_editor_is_reported(environ: dict[str, str]) -> None:
    with pytest.raises(CommandFailed, match="exited with status 3"):
        view_file(b"a", b"text\n", 1, {**environ, "STATUS": "3"})
    with pytest.raises(CommandFailed, match="cannot be read"):
        view_file(b"a", None, 1, environ)


KEY = Key(0, b"f")
BASE, YOURS, AGENT = b"1\n\n2\n", b"y1\n\ny2\n", b"a1\n\na2\n"
FINISH_ONE = f"""#!{shutil.which("python3")}
import os, re, sys
old = open(sys.argv[-1]).read()
open(os.environ["SEEN"], "a").write(old + "--\\n")
new = re.sub("<<<<<<< .*?>>>>>>> [^\\n]*\\n", "by hand\\n", old, count=1, flags=re.S)
open(sys.argv[-1], "w").write(new)
sys.exit(int(os.environ.get("STATUS", 0)))
"""


@pytest.fixture
def finish_one(tmp_path: Path, environ: dict[str, str]) -> dict[str, str]:
    """Return the environment with an editor that resolves the first conflict of a file."""
    (tmp_path / "other").write_text(FINISH_ONE)
    return {**environ, "EDITOR": "other"}


def test_an_edit_that_leaves_conflict_markers_is_continued(tmp_path: Path, finish_one: dict[str, str]) -> None:
    merged, editor = merge_lines(BASE, YOURS, AGENT), ConflictEditor()
    with pytest.raises(UsageError, match=r"markers left.*e: edit your text again"):
        editor.edit(KEY, merged, finish_one, None)
    with pytest.raises(CommandFailed):
        editor.edit(KEY, merged, {**finish_one, "STATUS": "1"}, None)
    assert editor.edit(KEY, merged, finish_one, None) == b"by hand\n\nby hand\n"
    shown = (tmp_path / "seen").read_text().split("--\n")
    assert [text.count("<<<<<<<") for text in shown[:3]] == [2, 1, 1]
    assert shown[1].startswith("by hand\n")


def test_an_unfinished_text_is_not_used_after_the_users_file_changed(tmp_path: Path, finish_one: dict[str, str]) -> None:
    """It lacks what the user has written since."""
    editor = ConflictEditor()
    for yours in (YOURS, b"y1\n\nlater\n"):
        with pytest.raises(UsageError):
            editor.edit(KEY, merge_lines(BASE, yours, AGENT), finish_one, None)
    shown = (tmp_path / "seen").read_text().split("--\n")
    assert [text.count("<<<<<<<") for text in shown[:-1]] == [2, 2]
    assert "later" in shown[1]


def test_an_unfinished_text_is_dropped_when_the_conflict_is_resolved(tmp_path: Path, finish_one: dict[str, str]) -> None:
    base, agent = {b"f": Node(FileType.FILE, BASE)}, {b"f": Node(FileType.FILE, AGENT)}
    with EndedSession(tmp_path, base, trees.upper_of(base, agent)) as session:
        (session.real / "f").write_bytes(YOURS)
        review = session.review()
        review.environ.update(finish_one)
        source = ReviewSource(review, session.store)
        for _ in range(2):
            with pytest.raises(UsageError):
                source.edit_conflict(KEY)
            assert source.resolve(KEY, (ConflictSide.YOURS, ConflictSide.YOURS)) is not None
        with pytest.raises(UsageError):
            source.edit_conflict(KEY)
        assert source.edit_conflict(KEY) == b"by hand\n\nby hand\n"
        review.close()
    shown = (tmp_path / "seen").read_text().split("--\n")
    assert [text.count("<<<<<<<") for text in shown[:-1]] == [2, 2, 2, 1]
