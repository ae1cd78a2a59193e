"""The recipes of docs/recipes.md, each run as it is."""

import json
import os
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.servers.sshd import make_key, sshd, user
from tests.harness.terminal import Terminal

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
DOCS = Path(__file__).resolve().parents[3] / "docs"


def run_recipe(agent_dev: AgentDev, name: str, *words: str, path: str = "", **variables: str) -> None:
    env = {**agent_dev.environment(), **variables}
    env["PATH"] = f"{path or PROGRAM.parent}:{env['PATH']}"
    done = subprocess.run(
        ["/bin/sh", RECIPES / name, *words],
        cwd=agent_dev.repo,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def install_claude(agent_dev: AgentDev, script: str) -> None:
    """Install a shell script in the place of Claude Code."""
    program = agent_dev.agent_home / ".local/agent/bin/claude"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_monorepo_and_a_library_are_reviewed_together(agent_dev: AgentDev) -> None:
    library = agent_dev.repo.parent / "library"
    library.mkdir()
    (library / "lib.txt").write_text("lib\n")
    (agent_dev.repo / "app.txt").write_text("app\n")
    run_recipe(agent_dev, "monorepo.sh")


def test_two_agents_work_at_once_in_git_work_trees(agent_dev: AgentDev) -> None:
    run_recipe(agent_dev, "worktrees.sh")


def test_a_job_applies_what_passes_and_keeps_the_review_of_what_fails(agent_dev: AgentDev, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    run_recipe(agent_dev, "ci-step.sh", str(artifacts))
    assert json.loads((artifacts / "result.json").read_text())["state"] == "merged"
    assert json.loads((artifacts / "failed.json").read_text())["cause"] == "validation"
    clone = AgentDev(agent_dev.home, tmp_path / "clone")
    subprocess.run(["git", "clone", "-q", agent_dev.repo, clone.repo], check=True, env=agent_dev.environment())
    run_recipe(clone, "ci-import.sh", str(artifacts))
    assert (clone.repo / "other.txt").read_text() == "wrong\n"


@pytest.mark.parametrize(("written", "state"), [("right", 0), ("wrong", 1)])
def test_the_workflow_applies_tested_changes_and_keeps_others(agent_dev: AgentDev, written: str, state: int) -> None:
    install_claude(agent_dev, f'test "$1" = -p && test "$ANTHROPIC_API_KEY" = key && echo {written} >answer')
    (agent_dev.repo / "Makefile").write_text("test:\n\tgrep -q right answer\n")
    steps = yaml.safe_load((RECIPES / "ci-workflow.yml").read_text())["jobs"]["agent"]["steps"]
    [step] = [step for step in steps if step.get("id") == "work"]
    assert textwrap.indent(step["run"], "    ") in (DOCS / "recipes.md").read_text()
    env = {**agent_dev.environment(), "ANTHROPIC_API_KEY": "key"}
    env["PATH"] = f"{PROGRAM.parent}:{env['PATH']}"
    command = ["/bin/bash", "-e", "-c", step["run"]]
    done = subprocess.run(
        command, cwd=agent_dev.repo, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == state, done.stdout + done.stderr
    artifacts = agent_dev.repo / "artifacts"
    assert json.loads((artifacts / "result.json").read_text())["state"] == ("merged" if state == 0 else "failed")
    assert (agent_dev.repo / "answer").exists() is (state == 0)
    assert all((artifacts / name).exists() is (state == 1) for name in ("review.html", "session.bundle"))


def test_an_agent_in_tmux_is_merged(agent_dev: AgentDev, tmp_path: Path) -> None:
    run_recipe(agent_dev, "tmux.sh", f"recipe-{os.getpid()}", TMUX_TMPDIR=str(tmp_path))


@pytest.mark.only_sshd
def test_an_agent_on_another_machine_is_merged_here(agent_dev: AgentDev, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", agent_dev.repo, clone], check=True, env=agent_dev.environment())
    programs = tmp_path / "bin"
    programs.mkdir()
    with sshd(tmp_path / "server", key) as server:
        hosts = tmp_path / "known_hosts"
        hosts.write_text(server.known_hosts)
        env = agent_dev.environment()
        variables = {**env, "PATH": f"{PROGRAM.parent}:{env['PATH']}", "XDG_STATE_HOME": str(tmp_path / "other")}
        there = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        options = f"-F none -p {server.port} -i {tmp_path / 'key'} -o UserKnownHostsFile={hosts} -l {user()}"
        (programs / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh {options} "$1" {shlex.quote(f"export {there};")} "$2"\n')
        (programs / "ssh").chmod(0o755)
        run_recipe(agent_dev, "ssh.sh", "127.0.0.1", str(clone), path=f"{programs}:{PROGRAM.parent}")


def task(agent_dev: AgentDev, label: str) -> Terminal:
    """Start a task as VS Code does: by a shell, in its own terminal."""
    [command] = [
        task["command"] for task in json.loads((RECIPES / "vscode-tasks.json").read_text())["tasks"] if task["label"] == label
    ]
    env = agent_dev.terminal_environment(
        {"TERM_PROGRAM": "vscode", "PATH": f"{PROGRAM.parent}:{agent_dev.environment()['PATH']}"}
    )
    return Terminal(["/bin/bash", "-c", command], env=env, cwd=agent_dev.repo)


def test_the_tasks_of_vs_code_run_an_agent_and_review_its_changes(agent_dev: AgentDev) -> None:
    install_claude(agent_dev, "echo made >made; read line")
    with task(agent_dev, "agent") as terminal:
        terminal.send("\r")
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        terminal.keys("q")
        assert terminal.wait_exit() == 0
    assert agent_dev.changes() == {"made": "added"}
    with task(agent_dev, "review the agent's changes") as terminal:
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        terminal.keys("A", "c")
        terminal.wait_for("No, go back")
        terminal.keys("y")
        terminal.wait_for("1 change merged")
        terminal.keys("enter")
        assert terminal.wait_exit() == 0
    assert (agent_dev.repo / "made").read_text() == "made\n"
