"""If the sandbox cannot be created as required, nothing runs and nothing is created."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.sandbox.policy.refusals import NOTHING_RAN, nothing_was_made, refused


@pytest.fixture
def path_without_bwrap(tmp_path: Path) -> str:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "git", "echo", "env"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return str(folder)


def test_without_bubblewrap_nothing_runs_and_nothing_is_created(agent_dev: AgentDev, path_without_bwrap: str) -> None:
    done = agent_dev(*NOTHING_RAN, env={"PATH": path_without_bwrap, "AGENT_DEV_BWRAP": None})
    refused(agent_dev, done, "bubblewrap")
    assert "install" in done.stderr
    assert nothing_was_made(agent_dev)


UNUSABLE = {
    "a bubblewrap that is missing": ("AGENT_DEV_BWRAP", "/missing/bwrap", "AGENT_DEV_BWRAP"),
    "a program that is not bubblewrap": ("AGENT_DEV_BWRAP", "/bin/true", "/bin/true"),
    "an unknown overlay mode": ("AGENT_DEV_OVERLAY", "fuse", "AGENT_DEV_OVERLAY=fuse: must be launcher or bwrap"),
}


@pytest.mark.parametrize(("variable", "value", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_value_of_a_variable_is_refused(agent_dev: AgentDev, variable: str, value: str, reason: str) -> None:
    refused(agent_dev, agent_dev(*NOTHING_RAN, env={variable: value}), reason)
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_text("")], ids=["directory", "file"])
def test_a_configured_bubblewrap_that_is_not_executable_is_refused(
    agent_dev: AgentDev, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "bwrap")
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": str(tmp_path / "bwrap")})
    refused(agent_dev, done, "AGENT_DEV_BWRAP")
    assert nothing_was_made(agent_dev)


def test_an_overlay_mode_that_this_bubblewrap_lacks_is_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.10.1\n")
    old.chmod(0o755)
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_OVERLAY": "bwrap", "AGENT_DEV_BWRAP": str(old)})
    refused(agent_dev, done, "this bubblewrap does not support overlays")
    assert nothing_was_made(agent_dev)


# Directories in which an agent may have written a program: what makes them writable → the directory and the arguments
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


@pytest.mark.parametrize("place", WRITTEN)
def test_no_program_is_run_from_a_directory_writable_by_an_agent(agent_dev: AgentDev, place: str) -> None:
    folder, words = WRITTEN[place]
    programs = agent_dev.home / folder / "programs"
    programs.mkdir(parents=True)
    for name in ("bwrap", "git"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {agent_dev.home}/executed\necho bubblewrap 9.9\n")
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "AGENT_DEV_BWRAP": None}
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
    assert "hint:" in done.stderr
    assert agent_dev.session_directories() == []


def test_without_user_namespaces_nothing_runs_and_a_hint_is_printed(agent_dev: AgentDev) -> None:
    script = 'echo 0 >/proc/sys/user/max_user_namespaces || exit 99; exec "$@"'
    done = agent_dev(*NOTHING_RAN, before=("unshare", "-r", "sh", "-c", script, "sh"))
    assert (done.returncode, done.stdout) == (125, "")
    assert "max_user_namespaces" in done.stderr
    assert "Traceback" not in done.stderr
    assert agent_dev.session_directories() == []
