"""The recipes of docs/recipes.md, each run as it is."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev
from tests.harness.servers.sshd import make_key, sshd, user

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


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


def test_the_tasks_of_vs_code_start_existing_commands() -> None:
    tasks = json.loads((RECIPES / "vscode-tasks.json").read_text())["tasks"]
    assert [task["command"] for task in tasks] == ["agent-dev claude", "agent-dev merge"]
