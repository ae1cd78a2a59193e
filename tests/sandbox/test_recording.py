"""The recording of a terminal (--record): an asciicast that shows what the terminal showed."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest

from tests.harness.program import PROGRAM, PYTHON, AgentDev, wait_until
from tests.harness.screen import Screen
from tests.harness.terminal import Shell, Terminal

FULL_SCREEN = """if True:
    import os, signal, tty
    def draw(*_):
        columns, rows = os.get_terminal_size()
        os.write(1, f"\\x1b[2J\\x1b[{rows};1Hsize {columns} {rows}.\\x1b[1;3H\\x1b[31mgr\\u00fc\\u00df\\x1b[m".encode())
    signal.signal(signal.SIGWINCH, draw)
    tty.setraw(0)
    draw()
    while os.read(0, 1) != b"q": pass
    os.write(1, b"\\x1b[2Jlast \\xff")
"""


@pytest.fixture
def cast(tmp_path: Path) -> Path:
    """Return the path of a recording that does not exist yet."""
    return tmp_path / "run.cast"


@pytest.fixture
def shell(agent_dev: AgentDev) -> Iterator[Shell]:
    """Yield a shell in the repository."""
    with Shell(env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as running:
        yield running


def recorded(agent_dev: AgentDev, cast: Path, *command: str) -> Terminal:
    """Run an agent with a recording as the only program of a terminal."""
    argv: list[str | Path] = [PROGRAM, "--no-merge", "--record", cast, "--", *command]
    return Terminal(argv, env=agent_dev.terminal_environment(), cwd=agent_dev.repo)


def events(cast: Path) -> list[Any]:
    """Return the events of a recording after its header; every line must be whole and valid."""
    lines = cast.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    return [json.loads(line) for line in lines[1:]]


def replay(cast: Path) -> str:
    """Return the screen after a replay."""
    header = json.loads(cast.read_bytes().splitlines()[0])
    assert header["version"] == 2
    screen = Screen(header["height"], header["width"], lambda _: None)
    stream = pyte.Stream(screen)
    for _, kind, data in events(cast):
        if kind == "r":
            columns, rows = map(int, data.split("x"))
            screen.resize(rows, columns)
        else:
            stream.feed(data)
    return screen.text()


def test_a_replay_shows_the_screen_of_a_resized_program(agent_dev: AgentDev, cast: Path) -> None:
    with recorded(agent_dev, cast, PYTHON, "-I", "-c", FULL_SCREEN) as terminal:
        terminal.wait_for("size 80 24.")
        terminal.resize(30, 100)
        shown = terminal.wait_for("size 100 30.")
        wait_until(lambda: replay(cast) == shown, "the recording shows the same")
        terminal.send("q")
        terminal.wait_exit()
    times = [event[0] for event in events(cast)]
    assert times == sorted(times)
    assert "grüß" in shown
    assert [event[2] for event in events(cast) if event[1] == "r"] == ["100x30"]
    assert "last \ufffd" in "".join(event[2] for event in events(cast))


def test_a_recording_has_no_input_and_only_its_owner_reads_it(agent_dev: AgentDev, cast: Path) -> None:
    script = "stty -echo; printf 'password? '; read word; stty echo; echo got ${#word}"
    with recorded(agent_dev, cast, "sh", "-c", script) as terminal:
        terminal.wait_for("password?")
        terminal.send("hunter2\r")
        terminal.wait_for("got 7")
        terminal.wait_exit()
    assert "got 7" in replay(cast)
    assert "hunter2" not in cast.read_text()
    assert cast.stat().st_mode & 0o7777 == 0o600


def test_no_process_inside_has_the_recording_open(agent_dev: AgentDev, cast: Path) -> None:
    script = "ls -l /proc/[0-9]*/fd; echo do''ne"
    with recorded(agent_dev, cast, "sh", "-c", script) as terminal:
        terminal.wait_raw(b"done\r\n")
        terminal.wait_exit()
        raw = terminal.raw
    assert b"/proc/self/fd" in raw or b"/dev/" in raw
    assert cast.name.encode() not in raw


@pytest.mark.parametrize("victim", ["launcher", "relay"])
def test_a_kill_leaves_a_valid_recording(shell: Shell, cast: Path, victim: str) -> None:
    shell.send(f"{PROGRAM} --no-merge --record {cast} -- sh -c 'echo be''gun; exec sleep 600'\r")
    shell.wait_for("begun")
    wait_until(lambda: "begun" in replay(cast), "the output is recorded")
    writer = next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if has_open(pid, cast))
    status = Path(f"/proc/{writer}/status").read_text()
    launcher = int(status.split("PPid:")[1].split()[0])
    os.kill(launcher if victim == "launcher" else writer, signal.SIGKILL)
    shell.wait_prompt()
    assert "begun" in replay(cast)


def has_open(pid: int, path: Path) -> bool:
    """Return whether a process has a file open."""
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") == str(path) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_a_full_file_ends_the_recording_and_not_the_agent(shell: Shell, cast: Path) -> None:
    shell.run("ulimit -f 16")  # of 1024 bytes
    shell.send(f"{PROGRAM} --limit file-size=1G --no-merge --record {cast} -- seq -f '<%.0f>' 20000; echo end''ed\r")
    shell.wait_for("ended")
    assert "<20000>" in shell.text()
    assert 0 < cast.stat().st_size <= 16 << 10
    assert events(cast)


def test_an_existing_file_is_not_overwritten(agent_dev: AgentDev, cast: Path) -> None:
    cast.write_text("mine")
    with recorded(agent_dev, cast, "echo", "ran") as terminal:
        assert terminal.wait_exit() == 125
        assert "file exists" in terminal.text()
        assert "ran" not in terminal.text()
    assert cast.read_text() == "mine"


def test_a_link_is_not_followed(agent_dev: AgentDev, cast: Path, tmp_path: Path) -> None:
    cast.symlink_to(tmp_path / "elsewhere")
    with recorded(agent_dev, cast, "echo", "ran") as terminal:
        assert terminal.wait_exit() == 125
    assert not (tmp_path / "elsewhere").exists()


def test_a_run_that_does_not_start_leaves_no_recording(agent_dev: AgentDev, cast: Path) -> None:
    with recorded(agent_dev, cast, "no-such-command-anywhere") as terminal:
        assert terminal.wait_exit() == 127
    assert not cast.exists()


def test_a_recording_without_a_terminal_is_refused(agent_dev: AgentDev, cast: Path) -> None:
    done = agent_dev("--record", cast, "--", "true")
    assert done.returncode == 125
    assert "there is no terminal to record" in done.stderr
    assert not cast.exists()


def resumed(agent_dev: AgentDev, cast: Path, *words: str, options: tuple[str, ...] = ()) -> Terminal:
    """Run the newest session again with a recording as the only program of a terminal."""
    argv: list[str | Path] = [PROGRAM, "--no-merge", *options, "--record", cast, "resume", *words]
    return Terminal(argv, env=agent_dev.terminal_environment(), cwd=agent_dev.repo)


def test_a_resumed_run_is_recorded(agent_dev: AgentDev, cast: Path) -> None:
    agent_dev.do("--", "sh", "-c", "echo x >>made; echo lines $(wc -l <made)")
    with resumed(agent_dev, cast) as terminal:
        terminal.wait_exit()
    assert "lines 2" in replay(cast)
    assert agent_dev.changes() == {"made": "added"}


def test_a_resumed_run_that_cannot_record_changes_nothing(agent_dev: AgentDev, cast: Path) -> None:
    agent_dev.do("--name", "one", "--", "touch", "made")
    with resumed(agent_dev, cast, "--", "no-such-command-anywhere") as terminal:
        assert terminal.wait_exit() == 127
    assert not cast.exists()
    cast.write_text("mine")
    with resumed(agent_dev, cast, "--", "touch", "other") as terminal:
        assert terminal.wait_exit() == 125
        assert "file exists" in terminal.text()
    assert cast.read_text() == "mine"
    done = agent_dev("--record", cast, "resume", "--", "touch", "other")
    assert (done.returncode, "there is no terminal to record" in done.stderr) == (125, True)
    assert ([row["state"] for row in agent_dev.sessions()], agent_dev.changes("one")) == (["waiting"], {"made": "added"})


def test_a_recorded_resume_of_a_detachable_session_is_attached(agent_dev: AgentDev, cast: Path) -> None:
    """It could be detached before, but only one terminal can be recorded."""
    agent_dev.do("--detach", "--", "touch", "made")
    wait_until(lambda: agent_dev.sessions()[0]["state"] == "waiting", "it ended")
    with resumed(agent_dev, cast, "--", "echo", "again") as terminal:
        assert terminal.wait_exit() == 0
    assert "again" in replay(cast)
    with resumed(agent_dev, cast.with_name("other.cast"), options=("--detachable",)) as terminal:
        assert terminal.wait_exit() == 2
        assert "--record cannot be combined" in terminal.text()


@pytest.mark.parametrize(
    ("words", "code"),
    [(["sessions"], 2), (["exec", "--", "true"], 2), (["shell"], 2), (["attach"], 2), (["tx", "true"], 125)],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_subcommand_does_not_record(agent_dev: AgentDev, cast: Path, words: list[str], code: int) -> None:
    done = agent_dev("--record", cast, *words)
    assert done.returncode == code
    assert "--record is only for" in done.stderr
    assert not cast.exists()
