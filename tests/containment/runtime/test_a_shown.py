"""CONTAINMENT A: the display of text from an agent. One hostile agent; the output of each command and of the screen."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PROGRAM, PYTHON, tree
from tests.harness.scale import repeat
from tests.harness.terminal import Terminal

MANY = repeat(3000)  # number of changes, one of them hidden among the others
ESCAPES, FORGED, INVALID, LINK = (
    b"esc\x1b[31;97;5mx\x1b]52;c;?\x07\x1b]0;title\x07",
    b"two\n  + added    forged",
    b"bad\xff\xfe\x9b31;97;5m",
    b"\x1b]8;;http:",
)
WIDTHS = ["wide" + "漢" * 30, "flood" + "\u0301" * 120, "l" * 250, "\u202eright to left", "\U0001f469\u200d\U0001f4bb" * 9]
RAW = (b"\x1b[31;97;5m", b"\x1b]52", b"\x1b]8;", b"\x1b]0;title", b"\x1b[8m", b"\x1b[2J\x1b[31", b"\x9b")
HOSTILE = """if True:
    import os, sys
    for name in NAMES:
        open(name, "w").write("new\\n")
    open("README.md", "a").write("seen\\rhidden\\nback\\x08\\x08x\\n\\x1b[8mconcealed\\x1b[31;97;5m\\n\\x1b]52;c;aGk=\\x07\\n")
    os.system("git add -A")
    who = ["-c", "user.name=Eve\\x1b]0;title\\x07", "-c", "user.email=e\\x1b[8m@x"]
    os.spawnvp(0, "git", ["git", *who, "commit", "-qm", "text\\x1b]52;c;aGk=\\x07\\x1b[2J\\x1b[31;97;5m\\nbody\\x1b[8m"])
    os.spawnvp(0, "git", ["git", "branch", "b\\u202e\\u009bevil"])
"""


@dataclass(frozen=True)
class Shown:
    """The output of each command to a terminal and to a pipe."""

    world: Machine
    terminal: dict[str, bytes]
    pipe: dict[str, str]
    screens: list[str]  # of the review, after each step down its list
    status: dict[str, Any]


def person(world: Machine, *words: str, rows: int = 30, cols: int = 80) -> Terminal:
    env = world.program.terminal_environment()
    return Terminal([str(PROGRAM), *words], rows=rows, cols=cols, env=env, cwd=world.repo)


@pytest.fixture(scope="module")
def shown(shared: Machine) -> Shown:
    """Return the output for the hostile agent's session, on a terminal and through a pipe."""
    names = f"[{ESCAPES!r}, {FORGED!r}, {INVALID!r}, {LINK!r}, *{WIDTHS!r}]"
    done = shared.program("--no-merge", "--", PYTHON, "-I", "-c", HOSTILE.replace("NAMES", names))
    assert done.returncode == 0, done.stderr
    terminal, pipe = {}, {"end of the run": done.stderr}
    for command in ("status", "diff", "commits", "sessions", "log", "log --changes", "merge --all --dry-run"):
        with person(shared, *command.split()) as started:
            assert started.wait_exit(60) == 0, started.text()
            terminal[command] = started.raw
        pipe[command] = shared.program(*command.split()).stdout
    screens = []
    with person(shared, "merge", cols=120) as screen:
        screen.wait_for("c apply", 60)
        for _ in range(len(WIDTHS) + 7):
            screens.append(screen.wait_quiet())
            screen.keys("down")
        terminal["screen, changes"] = screen.raw
        screen.keys("2")
        screen.wait_for("text␛]52")
        screen.wait_quiet()
        terminal["screen, commits"] = screen.raw
        screen.keys("q")
        screen.wait_exit()
    return Shown(shared, terminal, pipe, screens, shared.program.status())


def found(shown: Shown, *wanted: bytes) -> dict[str, list[bytes]]:
    """Return which of these byte strings reached the terminal, by command."""
    rows = {command: [raw for raw in wanted if raw in _without_text(output)] for command, output in shown.terminal.items()}
    return {command: raws for command, raws in rows.items() if raws}


def _without_text(printed: bytes) -> bytes:
    """Return the bytes without valid non-ASCII UTF-8, which contains the bytes of C1 controls."""
    return printed.decode("utf-8", "surrogateescape").encode("latin-1", "replace")


@row(
    "read or write the clipboard, set links and the title, by names and contents (OSC 52, 8, 0)",
    "agent-dev escapes names and contents; the agent's own output is passed through unchanged",
)
def test_a07_no_name_or_content_reaches_the_clipboard(shown: Shown) -> None:
    assert found(shown, b"\x1b]52", b"\x1b]8;", b"\x1b]0;title", b"52;c;?\x07") == {}


@row(
    "colours, cursor movement and hidden text by escape sequences in names",
    "every control character is shown as a visible character",
)
def test_a08_no_escape_sequence_in_a_name_reaches_the_terminal(shown: Shown) -> None:
    plain = {command: output for command, output in shown.terminal.items() if "screen" not in command}
    for command in ("diff", "status", "sessions", "log"):  # have colours of their own
        plain[command] = re.sub(rb"\x1b\[[0-9]*m", b"", plain[command])
    assert [command for command, output in plain.items() if b"\x1b" in output] == []
    assert found(shown, b"\x1b[31;97;5m", b"\x9b") == {}
    assert "esc␛[31;97;5mx␛]52;c;?␇" in shown.pipe["status"]


@row("a newline in a name that forges another entry", "names are escaped: one entry, one line")
def test_a09_a_newline_in_a_name_creates_no_second_entry(shown: Shown) -> None:
    paths = [change["path"] for change in shown.status["changes"]]
    assert paths.count(os.fsdecode(FORGED)) == 1
    for command in ("status", "merge --all --dry-run", "end of the run"):
        lines = shown.pipe[command].splitlines()
        lines_of_merge = [line for line in lines if line.removeprefix("would merge").lstrip().startswith("+ added    forged")]
        assert lines_of_merge == [], command
        assert sum("two␊  + added    forged" in line for line in lines) == 1, command


@row("names that are not UTF-8", "handled as bytes: merged exactly, shown as `\\xff`, and reports are valid JSON")
def test_a10_a_name_that_is_not_utf8_is_shown_reported_and_merged(shown: Shown) -> None:
    assert "bad\\xff\\xfe\\x9b31;97;5m" in shown.pipe["status"]
    report = shown.world.program("status", "--json").stdout
    report.encode("utf-8")  # raises for invalid text
    assert os.fsdecode(INVALID) in [change["path"] for change in json.loads(report)["changes"]]
    assert shown.world.program("merge", "--take", os.fsdecode(INVALID)).returncode == 0
    assert INVALID in os.listdir(os.fsencode(shown.world.repo))
    assert shown.world.program("undo").returncode == 0


@row(
    "hide parts of a line: carriage returns, backspaces, concealed text",
    "shown as visible characters, and reported as hidden text",
)
def test_a12_hidden_parts_of_a_line_are_shown(shown: Shown) -> None:
    for text in (shown.terminal["diff"].decode("utf-8", "replace"), "".join(shown.screens)):
        assert "seen␍hidden" in text
        assert "back␈␈x" in text
        assert "␛[8mconcealed" in text
    assert found(shown, b"\x08", b"\x1b[8m") == {}


@row("escape sequences in messages, authors and refs of commits", "everything read from git is escaped in the same way")
def test_a13_escape_sequences_in_commits_are_shown_as_characters(shown: Shown) -> None:
    assert "text␛]52;c;aGk=␇␛[2J␛[31;97;5m" in shown.pipe["commits"]
    assert "Eve" in shown.pipe["commits"]
    assert found(shown, *RAW) == {}
    assert not any("\u202e" in text or "\u009b" in text for text in shown.pipe.values())


@row(
    "very long names, many combining marks, wide and joined characters that shift columns",
    "truncated to cells, counted as displayed",
)
def test_a18_no_name_breaks_the_columns(shown: Shown) -> None:
    for screen in shown.screens:
        heads = [line.partition("│")[0] for line in screen.splitlines() if "│" in line]
        assert len(heads) > 15
        assert len({cell_len(head) for head in heads}) == 1, screen
    assert any("漢" in screen for screen in shown.screens)


# Each of these tests runs its own session.


@row("hide one bad change among thousands", "risky changes come first, all are counted, and `--all` leaves the bad one out")
def test_a15_one_bad_change_among_thousands_is_shown_first(world: Machine) -> None:
    script = f"mkdir -p a/.vscode z; for n in $(seq {MANY}); do echo $n >z/$n; done; echo '{{}}' >a/.vscode/tasks.json"
    assert world.program("--no-merge", "--", "sh", "-c", script).returncode == 0
    with person(world, "merge") as screen:
        screen.wait_for("tasks.json", 120)
        text = screen.wait_quiet()  # wait for the first paint: earlier input is dropped
        assert "tasks.json" in "".join(text.splitlines()[:6])
        assert f"Changes {MANY + 1:,}" in text
        screen.keys("q")
        screen.wait_exit(60)
    merged = world.program("merge", "--all", timeout=300)
    assert merged.returncode == 0, merged.stderr
    assert not (world.repo / "a").exists()
    assert len(os.listdir(world.repo / "z")) == MANY
    assert world.program.changes() == {"a/.vscode/tasks.json": "added"}


@row("change a file between the review and the merge", "identity and content are checked again before each operation: a conflict")
def test_a16_a_file_changed_after_the_review_is_not_merged(world: Machine) -> None:
    world.program("--no-merge", "--name", "one", "--", "sh", "-c", "echo agent >README.md; echo new >new")
    upper = next((world.program.state / "sessions").iterdir()) / "roots/0/upper"
    with person(world, "merge") as screen:
        screen.wait_for("c apply", 60)
        screen.wait_quiet()
        screen.keys("A")
        screen.wait_for("selected 2 of 2")
        resumed = world.program("resume", "one", "--", "sh", "-c", "echo hostile >new")
        (upper / "new").write_text("hostile\n")
        (world.repo / "README.md").write_text("the user's own\n")
        screen.keys("c")
        screen.wait_for("No, go back")
        screen.keys("y")
        screen.wait_for(lambda text: "No, go back" not in text, 60)
        screen.wait_quiet()
        screen.keys("q")
    assert resumed.returncode == 1, resumed.stderr  # a session under review cannot be resumed
    assert (world.repo / "README.md").read_text() == "the user's own\n"
    assert not (world.repo / "new").exists()


@row(
    "make agent-dev run a pager, an editor or a diff tool of the agent's",
    "the agent's settings are not read; only your own editor runs",
)
def test_a20_no_pager_or_editor_of_the_agent_runs(world: Machine) -> None:
    marker = world.folder / "ran"
    evil = f"touch {marker}"
    names = ("core.pager", "core.editor", "sequence.editor", "diff.external", "pager.diff", "merge.tool", "mergetool.x.cmd")
    script = "".join(f"git config {scope} {name} '{evil}';" for scope in ("--local", "--global") for name in names)
    script += f"echo '*.py diff=x' >.gitattributes; git config diff.x.textconv '{evil}'; echo 'print(3)' >sub/app.py;"
    script += f'mkdir -p ~/.config; echo \'export EDITOR="{evil}" PAGER="{evil}" LESSOPEN="|{evil}"\' >~/.profile; touch x'
    assert world.program("--no-merge", "--", "sh", "-c", script).returncode == 0
    before = tree(world.repo)
    for command in ("status", "diff", "commits", "log"):
        with person(world, command) as started:
            started.wait_exit(60)
    with person(world, "merge") as screen:
        screen.wait_for("c apply", 60)
        screen.wait_quiet()
        screen.keys("down", "down", "e")  # opens the editor
        screen.wait_quiet()
        screen.keys("escape", "q")
    assert not marker.exists()
    assert tree(world.repo) == before


FLOOD = 128 << 20  # bytes
_ENOUGH = 60 << 10  # KiB of memory
MEASURE = """if True:
    import os, sys
    _, status, used = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
    open(sys.argv[1], "w").write(str(used.ru_maxrss))
    sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture
def flooded(world: Machine) -> Iterator[Path]:
    """Yield the file to which an agent's output is redirected."""
    path = world.folder / "output"
    yield path
    path.unlink(missing_ok=True)


@row(
    "flood the launcher with output, or its logs with commands",
    "output goes through a bounded pipe; logs are truncated at 64 MiB, with a mark",
)
def test_a21_a_flood_of_output_fills_no_memory(world: Machine, flooded: Path, tmp_path: Path) -> None:
    peak = tmp_path / "peak"
    script = f"head -c {FLOOD} /dev/zero; head -c {FLOOD >> 3} /dev/zero >&2"
    with flooded.open("wb") as file:
        # Started by a small process: a child's peak memory includes its parent's, and pytest's is large.
        launched = [str(PROGRAM), "-C", str(world.repo), "--no-merge", "--", "sh", "-c", script]
        argv = [PYTHON, "-I", "-c", MEASURE, str(peak), *launched]
        subprocess.run(argv, env=world.program.environment(), stdout=file, stderr=file, check=True)
    assert flooded.stat().st_size >= FLOOD + (FLOOD >> 3)
    assert int(peak.read_text()) < _ENOUGH
