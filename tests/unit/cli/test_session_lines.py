"""Commands, paths and sessions in lists: the name first, and a command cut only where it does not fit."""

import os
import shlex
from pathlib import Path

import pytest

from agent_dev.checkpoint.restore_plan import is_git_path
from agent_dev.cli.render import changes
from agent_dev.cli.render import format as lines
from agent_dev.run.limits import missing_group_notices
from agent_dev.session import store
from agent_dev.session.origin import typed_words
from agent_dev.session.sessions import ListedSession

SCRIPT = ("sh", "-c", "echo one\necho two")


def listed(command: tuple[str, ...], name: str = "fix") -> ListedSession:
    record: store.Record = {**store.BLANK, "name": name, "command": list(command), "started": 10**18, "root": "/src/shop"}
    return ListedSession(store.Session("261124-121711-2727", "/state/x"), record, store.WAITING)


@pytest.mark.parametrize(
    ("argv", "width", "text"),
    [
        (("make", "a b"), 80, "make 'a b'"),
        (SCRIPT, 80, "sh -c 'echo one …"),
        (("sh", "-c", "\n  echo one\n"), 80, "sh -c 'echo one'"),
        (("make", "test"), 9, "make test"),
        (("make", "test"), 8, "make te…"),
        (("make", "test"), 6, "make…"),
    ],
)
def test_a_command_is_its_first_line_cut_only_if_needed(argv: tuple[str, ...], width: int, text: str) -> None:
    assert lines.command_text(argv, width) == text


@pytest.mark.parametrize(
    ("command", "words", "prompt", "shown"),
    [
        ("/x/claude --flag --more -p", "claude -p", "", "claude -p"),
        ("claude --flag", "claude", "fix it", "claude fix it"),
        ("bash -l", "claude", "fix it", "bash -l"),  # another command was run in the session since
        ("claude --flag", "", "", "claude --flag"),
        ("", "claude", "", ""),
    ],
)
def test_an_agents_session_shows_the_words_that_started_it(command: str, words: str, prompt: str, shown: str) -> None:
    record: store.Record = {**store.BLANK, "command": command.split(), "words": words.split(), "options": {"prompt": prompt}}
    assert " ".join(typed_words(record)) == shown
    assert typed_words({**record, "is_command": True}) == tuple(command.split())


def test_a_path_in_the_home_directory_begins_with_a_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = os.path.realpath(tmp_path)
    monkeypatch.setenv("HOME", home)
    paths = [f"{home}/src", home, f"{home}x/src", "/usr"]
    assert [lines.short_path(path) for path in paths] == ["~/src", "~", f"{home}x/src", "/usr"]


@pytest.mark.parametrize(("width", "end"), [(80, "make …"), (200, "make one two three four five six seven")])
def test_the_list_of_sessions_cuts_commands_to_the_terminal(
    width: int, end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changes, "terminal_width", lambda: width)
    command = ("make", "one", "two", "three", "four", "five", "six", "seven")
    changes.print_sessions([listed(command), listed(("true",), "x" * 20)], as_json=False, with_roots=False)
    row = capsys.readouterr().out.splitlines()[0]
    assert row.split()[:2] == ["fix", "waiting"]
    assert len(row) <= width
    assert row.endswith("…" if width == 80 else end)


def test_the_line_of_a_session_fits_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "terminal_width", lambda: 60)
    row = lines.session_line(listed(("make", "one", "two", "three", "four", "five", "six", "seven")))
    assert len(row) <= 60
    assert row.endswith("… in /src/shop")


@pytest.mark.parametrize("path", [".git", ".git/HEAD", "root-1:.git/HEAD", "git-0:HEAD", "git-0:"])
def test_paths_of_git_directories_are_not_counted_as_changes(path: str) -> None:
    assert is_git_path(path)


@pytest.mark.parametrize("path", ["a", ".gitignore", "root-1:a", "git-notes", "git-x:y", "a/.git-x", "root:.git/HEAD"])
def test_other_paths_are_counted_as_changes(path: str) -> None:
    assert not is_git_path(path)


@pytest.mark.parametrize(
    ("missing", "is_root", "texts"),
    [
        ((), True, ()),
        (("memory",), False, ("memory=1G applies per process: no control group can be created",)),
        (("processes",), False, ()),
        (("processes",), True, ("processes=9 does not apply to root: no control group can be created",)),
    ],
)
def test_a_limit_without_a_control_group_is_named(missing: tuple[str, ...], texts: tuple[str, ...], *, is_root: bool) -> None:
    assert missing_group_notices(missing, {"memory": 1 << 30, "processes": 9}, is_root=is_root) == texts


@pytest.mark.parametrize(
    ("line", "is_short"), [("claude -p 'fix issue 12'", True), ("echo x >y", False), ("echo 'x", False), ("", False)]
)
def test_a_simple_line_of_a_list_is_shown_without_its_shell(line: str, is_short: bool) -> None:  # noqa: FBT001
    record: store.Record = {**store.BLANK, "command": ["/bin/sh", "-c", line], "is_command": True}
    assert typed_words(record) == (tuple(shlex.split(line)) if is_short else ("/bin/sh", "-c", line))
