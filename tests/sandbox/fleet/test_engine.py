"""`--on ENGINE` without a cluster: the engine runs the worker on this machine."""

import json
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev, processes, wait_until
from tests.sandbox.fleet.laws import run, tasks


@pytest.fixture
def engine(agent_dev: AgentDev) -> AgentDev:
    """Return the program with an engine `lab`, and one whose machine has no agent-dev."""
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    broken = "sh -c 'echo agent-dev: no room >&2; echo srun: error: exited >&2; exit 125'"
    (folder / "config.yaml").write_text(f"worker: {PROGRAM}\nengines:\n  lab: env LC_ALL=C\n  broken: {json.dumps(broken)}\n")
    return agent_dev


def test_first_applies_only_the_first_task_that_passes_and_stops_the_others(engine: AgentDev, tmp_path: Path) -> None:
    lines = ("exit 3", "sleep 1000.027", "echo 2 >f2", "sleep 1000.027")
    document, done = run(engine, "lab", tasks(tmp_path, *lines), "--first", "--jobs", "4")

    assert document["exit"] == 0, done.stderr
    assert [job["cause"] for job in document["jobs"]] == ["command", "not needed", None, "not needed"]
    assert (engine.repo / "f2").exists()
    assert [job["session"] for job in document["jobs"]][1:] == [None, None, None]
    wait_until(lambda: not processes("sleep\0001000.027"), "the others have ended")


@pytest.mark.parametrize(("name", "code"), [("lab", 0), ("broken", 1)])
def test_doctor_checks_an_engine(engine: AgentDev, name: str, code: int) -> None:
    done = engine("doctor", "--on", name, "--json")
    findings = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == code, done.stdout
    assert not findings["GNU parallel"]["failed"]
    assert findings[f"worker {name}"]["failed"] is bool(code)
    assert (f"doctor on {name}" in findings) is not bool(code)


def test_the_reason_of_a_worker_is_shown_rather_than_that_of_its_engine(engine: AgentDev, tmp_path: Path) -> None:
    done = engine("tx", "--many", tasks(tmp_path, "true"), "--on", "broken")
    assert done.returncode != 0
    assert "broken cannot be used: no room\n" in done.stderr


def test_attempts_run_on_an_engine_and_keep_its_name(engine: AgentDev) -> None:
    words = ("--best", "2", "--on", "lab", "--name", "fix", "--score", "cat score")
    done = engine("tx", "--json", *words, "--", "sh", "-c", "echo 7 >score", timeout=120)
    document = json.loads(done.stdout)

    assert (document["state"], document["best"]) == ("proposed", 1), done.stderr
    assert [(one["host"], one["score"]) for one in document["attempts"]] == [("lab", 7)] * 2
    assert json.loads(engine.do("tx", "--json", "--compare", "fix-2")) == document
