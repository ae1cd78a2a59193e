"""A copy of the agent's file is opened in the user's editor: read-only, at a line, and edits of it change nothing."""

import os
from pathlib import Path

import pytest

from agent_dev.cli.editor import view_file
from agent_dev.errors import CommandFailed

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
