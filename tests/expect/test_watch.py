"""`agent-dev watch`: the live view of a running session, in a pipe and on a terminal."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.program import PROGRAM, AgentDev, tree, wait_until
from tests.harness.terminal import Terminal

HOSTILE = "evil\x1b]0;title\x07\x1b[31m"
# Works until the file `stop` appears in a directory that it may read.
AGENT = 'echo 1 >one.txt; rm README.md; : >"$1"; ls >/dev/null; until [ -e "$2/stop" ]; do sleep 0.1; done'


@contextmanager
def running(agent_dev: AgentDev, folder: Path) -> Iterator[None]:
    """Run an agent that has made its changes, and ends when `stop` appears in a folder."""
    folder.mkdir()
    words = ("--no-merge", "--name", "live", "--ro", folder, "--", "sh", "-c", AGENT, "sh", HOSTILE, folder)
    with agent_dev.start(*words) as process:
        wait_until(lambda: "one.txt" in agent_dev("status", "live").stdout, "the agent's changes")
        yield
        (folder / "stop").touch()
        process.wait(60)


def test_events_are_printed_as_lines_until_the_session_ends(agent_dev: AgentDev, repo: Path, tmp_path: Path) -> None:
    before = tree(repo)
    with running(agent_dev, tmp_path / "signals"), agent_dev.start("watch", "--json") as watch:
        assert watch.stdout is not None
        rows = [json.loads(watch.stdout.readline())]
        while not any(row["event"] == "change" and row["text"] == "one.txt" for row in rows):
            rows.append(json.loads(watch.stdout.readline()))
        (tmp_path / "signals/stop").touch()
        rows += map(json.loads, watch.stdout)
        assert watch.wait(60) == 0
        assert watch.stderr is not None
        assert "agent-dev merge live" in watch.stderr.read()
    assert {"event": "change", "text": "README.md", "change": "deleted"} in rows
    assert any(row["event"] == "command" and row["text"] == "ls" for row in rows)
    assert rows[-1] == {"event": "end", "text": "live"}
    assert tree(repo) == before


def test_a_closed_pipe_ends_it(agent_dev: AgentDev, tmp_path: Path) -> None:
    with running(agent_dev, tmp_path / "signals"), agent_dev.start("watch") as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert watch.stdout.readline()
        watch.stdout.close()
        (tmp_path / "signals/stop").touch()  # its end is one more line
        assert watch.wait(60) == 141
        assert "Traceback" not in watch.stderr.read()


def test_the_screen_shows_the_session_and_is_restored(agent_dev: AgentDev, repo: Path, tmp_path: Path) -> None:
    with running(agent_dev, tmp_path / "signals"):
        for key in ("q", None):
            with Terminal([PROGRAM, "watch"], rows=24, cols=80, env=agent_dev.terminal_environment(), cwd=repo) as terminal:
                shown = terminal.wait_for("+ one.txt")
                assert "- README.md" in shown
                assert "q quit" in shown
                assert "title" in shown  # as text
                assert terminal.screen.is_alternate()
                terminal.resize(12, 50)
                terminal.wait_for(lambda text: text.splitlines()[11].startswith("q quit"))
                if key:
                    terminal.keys(key)
                else:
                    (tmp_path / "signals/stop").touch()
                assert terminal.wait_exit() == 0
                assert not terminal.screen.is_alternate()
                assert b"\x1b]0;" not in terminal.raw
                assert b"\x1b[31m" not in terminal.raw
    assert "agent-dev merge live" in terminal.text().replace("\n", "")


def test_a_session_that_does_not_run_is_not_watched(agent_dev: AgentDev) -> None:
    assert agent_dev("watch").returncode == 1
    agent_dev("--no-merge", "--name", "over", "--", "sh", "-c", "echo 1 >one.txt")
    done = agent_dev("watch", "over")
    assert done.returncode == 1
    assert "agent-dev merge over" in done.stderr
