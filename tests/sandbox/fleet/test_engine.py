"""`--on ENGINE` without a cluster: the engine runs the worker on this machine."""

import json
import sys
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, AgentDev, processes, wait_until
from tests.sandbox.fleet.laws import run, tasks

OTHER_WORKER = """#!{python}
import sys
sys.path.insert(0, {root!r})
import agent_dev
agent_dev.__version__ = "9.9"
from agent_dev.version_range import VersionRange
from agent_dev.bundle import manifest
manifest.VERSIONS = VersionRange(*{bundle})
from agent_dev.fleet import ticket
ticket.PROTOCOL = VersionRange(*{protocol})
from agent_dev.cli.main import main
main()
"""


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
    failed, *others = (job["cause"] for job in document["jobs"])
    assert failed in ("command", "not needed")  # the latter if the task that passes is quicker
    assert others == ["not needed", None, "not needed"]
    assert (engine.repo / "f2").exists()
    assert [job["session"] for job in document["jobs"]][1:] == [None, None, None]
    wait_until(lambda: not processes("sleep\0001000.027"), "the others have ended")


def test_a_task_that_was_killed_by_its_own_signal_is_not_resumed(engine: AgentDev, tmp_path: Path) -> None:
    done = engine("tx", "--many", tasks(tmp_path, "kill -9 $$"), "--on", "lab")
    assert (done.returncode, "killed by signal 9" in done.stderr, "--resume" in done.stderr) == (1, True, False)


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


def test_an_open_session_with_the_name_of_a_task_is_refused(engine: AgentDev, tmp_path: Path) -> None:
    words = ("tx", "--many", tasks(tmp_path, "echo x >x"), "--on", "lab", "--review", "--name", "fix")
    engine.do(*words)
    done = engine(*words)
    assert (done.returncode, "--name fix-1: a waiting session" in done.stderr) == (125, True), done.stderr
    assert [one["name"] for one in engine.sessions()] == ["fix-1"]


def use_worker(engine: AgentDev, folder: Path, protocol: tuple[int, int], bundle: tuple[int, int]) -> None:
    """Let the engine `lab` run an agent-dev of another version, with these versions of the protocol and of bundles."""
    worker, root = folder / "worker", str(Path(__file__).parents[3])
    worker.write_text(OTHER_WORKER.format(python=sys.executable, root=root, protocol=protocol, bundle=bundle))
    worker.chmod(0o755)
    config = Path(engine.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config.write_text(f"worker: {worker}\nengines:\n  lab: env LC_ALL=C\n")


@pytest.mark.parametrize(("protocol", "bundle"), [((1, 2), (1, 3)), ((0, 1), (0, 1))])
def test_a_worker_of_another_version_is_used_if_the_formats_overlap(
    engine: AgentDev, tmp_path: Path, protocol: tuple[int, int], bundle: tuple[int, int]
) -> None:
    use_worker(engine, tmp_path, protocol, bundle)
    document, done = run(engine, "lab", tasks(tmp_path, "echo 1 >f1", "true"))
    assert (document["exit"], (engine.repo / "f1").read_text()) == (0, "1\n"), done.stderr
    assert "agent-dev 9.9" in engine.do("doctor", "--on", "lab")


@pytest.mark.parametrize(
    ("protocol", "bundle", "reason"),
    [
        ((2, 3), (1, 1), "version 2 to 3 of the protocol, this machine 1: upgrade agent-dev here"),
        ((0, 0), (1, 1), "version 0 of the protocol, this machine 1: upgrade agent-dev on lab"),
        ((1, 1), (2, 2), "version 2 of bundles, this machine 1: upgrade agent-dev here"),
    ],
)
def test_a_worker_without_a_common_version_says_which_side_to_upgrade(
    engine: AgentDev, tmp_path: Path, protocol: tuple[int, int], bundle: tuple[int, int], reason: str
) -> None:
    use_worker(engine, tmp_path, protocol, bundle)
    done = engine("tx", "--many", tasks(tmp_path, "echo 1 >f1"), "--on", "lab")
    assert (done.returncode, done.stderr) == (125, f"agent-dev: lab cannot be used: it has {reason}\n")
    assert reason in engine("doctor", "--on", "lab").stdout
    assert not (engine.repo / "f1").exists()
