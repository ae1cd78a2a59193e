"""The recipes of docs/recipes.md, each run as it is."""

import json
import subprocess
from pathlib import Path

from tests.harness.program import PROGRAM, AgentDev

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def run_recipe(agent_dev: AgentDev, name: str, *words: str) -> None:
    env = agent_dev.environment()
    env["PATH"] = f"{PROGRAM.parent}:{env['PATH']}"
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


def test_the_tasks_of_vs_code_start_existing_commands() -> None:
    tasks = json.loads((RECIPES / "vscode-tasks.json").read_text())["tasks"]
    assert [task["command"] for task in tasks] == ["agent-dev claude", "agent-dev merge"]
