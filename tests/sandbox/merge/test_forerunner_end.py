"""Exit codes, signals, a killed launcher, a terminal, remains. The section comments describe defects of the forerunner."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.harness.terminal import Terminal
from tests.sandbox.merge.forerunner_world import PATIENCE, PROGRAM, World, picture, wait_until

# With `--new-session`, resizes of the terminal did not reach the agent.


def _terminal(world: World, script: str) -> Terminal:
    return Terminal(
        [PROGRAM, "--no-merge", "--", "bash", "-c", script], env={**dict.fromkeys(os.environ), **world.env}, cwd=world.repo
    )


def test_a_resize_is_forwarded_to_the_sandbox(world: World) -> None:
    with _terminal(world, "trap 'stty size; exit 7' WINCH; echo ready; sleep 60 & wait") as terminal:
        terminal.wait_for("ready")
        terminal.resize(11, 47)
        terminal.wait_for("11 47")
        assert terminal.wait_exit() == 7
    world.wait_tidy()


# After a kill of the wrapper there was no review, and the changes were left without a message.


@pytest.mark.parametrize("code", [0, 1, 2, 42, 125, 255])
def test_the_agents_exit_code_is_preserved(world: World, code: int) -> None:
    world.agent(f"exit {code}", code=code)
    world.agent(f"echo new >new; exit {code}", code=code)
    assert world.status()["exit"] == code


def test_a_signal_that_killed_the_agent_is_the_exit_code(world: World) -> None:
    world.agent("echo new >new; kill -TERM $$", code=143)


@pytest.mark.parametrize("when", ["at once", "later"])
def test_the_session_of_a_killed_launcher_is_found_reported_and_merged(world: World, when: str) -> None:
    with world.inside("--name", "lost") as agent:
        if when == "later":
            agent.wait_for_clock()
        agent.do("echo new >new; echo agent >README")
        record = json.loads(next((world.state / "sessions").glob("*/session.json")).read_text())
        agent.kill()
    wait_until(lambda: not Path(f"/proc/{record['init']}/exe").exists(), "the end of the sandbox")
    assert [(one["name"], one["state"]) for one in world.sessions()] == [("lost", "killed")]
    assert "unmerged session here: lost" in world.agent("true").err
    world.merge_all("lost")
    assert (world.read("new"), world.read("README")) == ("new\n", "agent\n")


def test_ctrl_c_stops_the_agent_and_keeps_its_session(world: World) -> None:
    with _terminal(world, "echo new >new; echo ready; sleep 60") as terminal:
        terminal.wait_for("ready")
        terminal.keys("ctrl+c")
        assert terminal.wait_exit() == 130
        assert "merge " in terminal.raw.decode()
    assert world.kinds() == {"new": ("added", "file")}


def test_sigterm_to_the_launcher_keeps_the_session(world: World) -> None:
    with world.inside() as agent:
        agent.do("echo new >new")
        agent.process.terminate()
        assert agent.process.wait(PATIENCE) == 143
        reported = agent.errors()
    assert set(world.changes()) == {"new"}
    session = world.status()["session"]
    for verb in ("diff", "merge", "discard"):
        assert f"agent-dev {verb} {session}" in reported


# The work directories that the kernel creates (mode 000) could not be removed.


@pytest.mark.parametrize("end", ["itself", "killed"])
def test_a_discarded_session_can_be_removed_with_rm(world: World, end: str) -> None:
    with world.inside("--name", "gone") as agent:
        agent.do("echo new >new; rm -r src")
        if end == "killed":
            agent.kill()
    world.run("discard", "gone")
    assert world.sessions() == []
    assert set(picture(world.repo)) == {b"README", b"src", b"src/a", b"src/b"}
    closed = [
        path for path, (kind, mode, _) in picture(world.state, without="").items() if kind == "dir" and mode & 0o700 != 0o700
    ]
    assert closed == []
    shutil.rmtree(world.state)


# The intent of the forerunner's own tests, checked by the resulting state.


@pytest.mark.parametrize("words", [("--nonsense",), ("merge", "--nonsense"), ("merge", "nobody"), ("merge", "--take", "nothing")])
def test_invalid_arguments_are_refused_in_one_line(world: World, words: tuple[str, ...]) -> None:
    world.agent("echo new >new")
    before = picture(world.repo)
    done = world.run(*words, code=2)
    assert done.out == ""
    assert 1 <= len(done.err.splitlines()) <= 2
    assert picture(world.repo) == before


def test_nothing_to_merge_is_reported_and_exits(world: World) -> None:
    assert "waiting" in world.run("merge", "--all", code=1).err


def test_one_merge_accepts_refuses_and_leaves_changes(world: World) -> None:
    world.agent("echo agent >README; rm src/a; echo new >new; echo left >left")
    world.merge("--take", "README", "--take", "src/a", "--take", "new")
    assert (world.read("README"), world.read("new")) == ("agent\n", "new\n")
    assert set(picture(world.repo)) == {b"README", b"new", b"src", b"src/b"}
    assert set(world.changes()) == {"left"}
    world.run("discard")
    assert world.sessions() == []
