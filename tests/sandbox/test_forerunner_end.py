"""How the forerunner's sessions ended: exit codes, signals, a killed wrapper, a terminal, what stays: a test for each."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.terminal import Terminal
from tests.sandbox.forerunner_world import PATIENCE, PROGRAM, World, picture, wait_until, world_below


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_below(tmp_path) as made:
        yield made


# `--new-session` kept resizes from the agent.


def _terminal(world: World, script: str) -> Terminal:
    return Terminal(
        [PROGRAM, "--no-merge", "--", "bash", "-c", script], env={**dict.fromkeys(os.environ), **world.env}, cwd=world.repo
    )


def test_a_resize_reaches_the_inside(world: World) -> None:
    with _terminal(world, "trap 'stty size; exit 7' WINCH; echo ready; sleep 60 & wait") as terminal:
        terminal.wait_for("ready")
        terminal.resize(11, 47)
        terminal.wait_for("11 47")
        assert terminal.wait_exit() == 7
    world.wait_tidy()


# A killed wrapper: no review, the changes were left where nobody was told of them.


@pytest.mark.parametrize("code", [0, 1, 2, 42, 125, 255])
def test_the_agents_exit_code_is_kept(world: World, code: int) -> None:
    world.agent(f"exit {code}", code=code)
    world.agent(f"echo new >new; exit {code}", code=code)
    assert world.status()["exit"] == code


def test_a_signal_that_ended_the_agent_is_the_exit_code(world: World) -> None:
    world.agent("echo new >new; kill -TERM $$", code=143)


@pytest.mark.parametrize("when", ["at once", "later"])
def test_the_session_of_a_killed_launcher_is_found_said_and_merged(world: World, when: str) -> None:
    with world.inside("--name", "lost") as agent:
        if when == "later":
            agent.settle()
        agent.do("echo new >new; echo agent >README")
        record = json.loads(next((world.state / "sessions").glob("*/session.json")).read_text())
        agent.kill()
    wait_until(lambda: not Path(f"/proc/{record['init']}/exe").exists(), "the end of the sandbox")
    assert [(one["name"], one["state"]) for one in world.sessions()] == [("lost", "killed")]
    assert "not merged: lost" in world.agent("true").err
    world.merge_all("lost")
    assert (world.read("new"), world.read("README")) == ("new\n", "agent\n")


def test_ctrl_c_ends_the_agent_and_keeps_its_session(world: World) -> None:
    with _terminal(world, "echo new >new; echo ready; sleep 60") as terminal:
        terminal.wait_for("ready")
        terminal.keys("ctrl+c")
        assert terminal.wait_exit() == 130
        assert "merge " in terminal.raw.decode()
    assert world.kinds() == {"new": ("added", "file")}


def test_a_launcher_that_is_asked_to_end_keeps_the_session(world: World) -> None:
    with world.inside() as agent:
        agent.do("echo new >new")
        agent.process.terminate()
        assert agent.process.wait(PATIENCE) == 143
        told = agent.errors()
    assert set(world.changes()) == {"new"}
    session = world.status()["session"]
    for verb in ("diff", "merge", "discard"):
        assert f"agent-dev {verb} {session}" in told


# What the kernel leaves in the work directories (mode 000) could not be removed.


@pytest.mark.parametrize("end", ["itself", "killed"])
def test_a_discarded_session_can_be_removed_by_plain_removal(world: World, end: str) -> None:
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


# Its own tests: what they meant to show, on state.


@pytest.mark.parametrize("words", [("--nonsense",), ("merge", "--nonsense"), ("merge", "nobody"), ("merge", "--take", "nothing")])
def test_bad_words_are_refused_in_one_line(world: World, words: tuple[str, ...]) -> None:
    world.agent("echo new >new")
    before = picture(world.repo)
    done = world.run(*words, code=2)
    assert done.out == ""
    assert 1 <= len(done.err.splitlines()) <= 2
    assert picture(world.repo) == before


def test_nothing_to_merge_is_said_and_ends(world: World) -> None:
    assert "waiting" in world.run("merge", "--all", code=1).err


def test_accepted_refused_and_left_at_once(world: World) -> None:
    world.agent("echo agent >README; rm src/a; echo new >new; echo left >left")
    world.merge("--take", "README", "--take", "src/a", "--take", "new")
    assert (world.read("README"), world.read("new")) == ("agent\n", "new\n")
    assert set(picture(world.repo)) == {b"README", b"new", b"src", b"src/b"}
    assert set(world.changes()) == {"left"}
    world.run("discard")
    assert world.sessions() == []
