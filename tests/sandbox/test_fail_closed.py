"""Where a sandbox cannot be made as it must be, nothing runs and nothing is made."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.sandbox.refusals import NOTHING_RAN, nothing_was_made, refused


@pytest.fixture
def path_without_bwrap(tmp_path: Path) -> str:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "git", "echo", "env"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return str(folder)


def test_without_bubblewrap_nothing_runs_and_nothing_is_made(agent_dev: AgentDev, path_without_bwrap: str) -> None:
    done = agent_dev(*NOTHING_RAN, env={"PATH": path_without_bwrap, "AGENT_DEV_BWRAP": None})
    refused(agent_dev, done, "bubblewrap")
    assert "install" in done.stderr
    assert nothing_was_made(agent_dev)


def test_a_chosen_bubblewrap_that_is_missing_is_not_replaced_by_another(agent_dev: AgentDev, tmp_path: Path) -> None:
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": str(tmp_path / "missing")})
    refused(agent_dev, done, "AGENT_DEV_BWRAP")
    assert nothing_was_made(agent_dev)


def test_a_bubblewrap_that_is_none_is_refused(agent_dev: AgentDev) -> None:
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": "/bin/true"})
    refused(agent_dev, done, "/bin/true")
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_text("")], ids=["directory", "file"])
def test_a_chosen_bubblewrap_that_cannot_be_executed_is_refused(
    agent_dev: AgentDev, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "bwrap")
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": str(tmp_path / "bwrap")})
    refused(agent_dev, done, "AGENT_DEV_BWRAP")
    assert nothing_was_made(agent_dev)


def test_an_unknown_way_of_mounting_overlays_is_refused(agent_dev: AgentDev) -> None:
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_OVERLAY": "fuse"})
    refused(agent_dev, done, "AGENT_DEV_OVERLAY is fuse: it is launcher or bwrap")
    assert nothing_was_made(agent_dev)


def test_a_way_that_this_bubblewrap_has_not_is_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.10.1\n")
    old.chmod(0o755)
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_OVERLAY": "bwrap", "AGENT_DEV_BWRAP": str(old)})
    refused(agent_dev, done, "this bubblewrap has no overlays")
    assert nothing_was_made(agent_dev)


# Where an agent can have written a program: what says so, and the words for agent-dev
WRITTEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "the repository": ("src/shop", ("--",)),
    "the default agent home": ("aihome", ("--",)),
    "the default agent home, with another in use": ("aihome", ("--home", "{home}/other", "--")),
    "the home of --home": ("elsewhere", ("--home", "{home}/elsewhere", "--")),
    "the home of a variable": ("elsewhere", ("--",)),
    "the home of a profile": ("elsewhere", ("mine",)),
    "the home of config.yaml": ("elsewhere", ("--",)),
    "what --rw shows": ("elsewhere", ("--rw", "{home}/elsewhere", "--")),
    "what --overlay shows": ("elsewhere", ("--overlay", "{home}/elsewhere", "--")),
}


@pytest.mark.parametrize("program", ["bwrap", "git"])
@pytest.mark.parametrize("place", WRITTEN)
def test_no_program_is_taken_from_where_an_agent_can_write(agent_dev: AgentDev, place: str, program: str) -> None:
    folder, words = WRITTEN[place]
    planted = agent_dev.home / folder / "programs" / program
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {agent_dev.home}/executed\necho bubblewrap 9.9\n")
    planted.chmod(0o755)
    env = {"PATH": f"{planted.parent}:/usr/bin:/bin", "AGENT_DEV_BWRAP": None}
    env |= {"AGENT_DEV_HOME": f"{agent_dev.home}/elsewhere"} if "variable" in place else {}
    config = agent_dev.home.parent / "config/agent-dev"
    (config / "profiles").mkdir(parents=True)
    (config / "profiles/mine.yaml").write_text("home: ~/elsewhere\ncommand: [env]\n")
    if "config" in place:
        (config / "config.yaml").write_text("home: ~/elsewhere\n")

    script = "echo x >new; git add -A; git commit -qm One"
    *options, agent = (word.format(home=agent_dev.home) for word in words)
    agent_dev(*options, agent, "sh", "-c", script, env=env)
    for word in ("status", "diff", "commits", *(["doctor"] if agent == "--" else [])):
        agent_dev(*options, word, env=env)
    assert agent_dev("merge", "--take", "new", env=env).returncode == 0
    assert not (agent_dev.home / "executed").exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_when_bubblewrap_fails_its_message_is_shown_and_nothing_runs(agent_dev: AgentDev, tmp_path: Path, when: str) -> None:
    real = agent_dev.env.get("AGENT_DEV_BWRAP") or shutil.which("bwrap")
    failing = tmp_path / "bwrap"
    failing.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\necho "bwrap: Failed to make / slave: no luck" >&2\nexit 1\n'
    )
    failing.chmod(0o755)
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": str(failing)})
    assert (done.returncode, done.stdout) == (125, "")
    assert "Failed to make / slave: no luck" in done.stderr
    assert "→" in done.stderr
    assert agent_dev.leavings() == []


def test_without_user_namespaces_nothing_runs_and_the_cure_is_said(agent_dev: AgentDev) -> None:
    script = 'echo 0 >/proc/sys/user/max_user_namespaces || exit 99; exec "$@"'
    done = agent_dev(*NOTHING_RAN, before=("unshare", "-r", "sh", "-c", script, "sh"))
    assert (done.returncode, done.stdout) == (125, "")
    assert "max_user_namespaces" in done.stderr
    assert "Traceback" not in done.stderr
    assert agent_dev.leavings() == []
