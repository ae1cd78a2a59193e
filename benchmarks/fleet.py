"""Transactions on other machines: a list of tasks on two ssh hosts on this machine, against the same list run here."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import WorkingDirectory, repository
from tests.harness.machines.ssh_hosts import ssh_hosts

TITLE = "Many machines"
_TASKS, _ROUNDS, _LIMIT = measure.size(100, 2), 2, 500.0  # ms per task
_HOSTS = ("build1", "build2")
_WITHIN = 600.0  # seconds


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Run 100 tasks here and on two hosts, two at a time; report the time per task, and what the hosts add to it."""
    with TemporaryDirectory(dir=workdir.folder) as name:
        folder = Path(name)
        with ssh_hosts(folder, _HOSTS) as hosts:
            env = {**workdir.env, "PATH": f"{hosts.bin}:{workdir.env['PATH']}", "XDG_CONFIG_HOME": f"{folder}/config"}
            (folder / "config/agent-dev").mkdir(parents=True)
            (folder / "config/agent-dev/config.yaml").write_text(f"worker: {workdir.program}\n")
            argv = {"here": ("--jobs", "2"), "two hosts": ("--on", ",".join(_HOSTS), "--jobs", "1")}
            subjects = [Subject(key, _timer(workdir, folder, key, words, env)) for key, words in argv.items()]
            found = measure.in_turns(subjects, _ROUNDS, warm_up=0, within=_WITHIN)
    here, there = (found[key]["task"] for key in argv)
    added = [one - other for one, other in zip(there, here, strict=True)]
    rows = (
        Row("here", measure.spread(here)),
        Row("two hosts", measure.spread(there)),
        Row("added by the hosts", measure.spread(added), limit=_LIMIT),
    )
    about = f"`tx --many` with {_TASKS} tasks that write a file, two at a time: time per task, until all are merged, in ms."
    return (Section(TITLE, about, rows),)


def _timer(
    workdir: WorkingDirectory, folder: Path, key: str, words: tuple[str, ...], env: dict[str, str]
) -> Callable[[], dict[str, float]]:
    rounds = iter(range(_ROUNDS))

    def run_once() -> dict[str, float]:
        root = repository(folder / f"repository {key} {next(rounds)}", env, {"README.md": b"hello\n"})
        tasks = folder / "tasks"
        tasks.write_text("".join(f"echo {number} >f{number}\n" for number in range(_TASKS)))
        argv = (workdir.program, "-q", "-C", str(root), "tx", "--json", "--many", str(tasks), *words)
        milliseconds = process.elapsed_time(argv, env)
        assert all((root / f"f{number}").exists() for number in range(_TASKS))
        return {"task": milliseconds / _TASKS}

    return run_once
