"""agent-dev compared with what people would use instead: the start, a whole job, and the work inside."""

import contextlib
import functools
import itertools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import measure, process, workload
from benchmarks.comparison.alternatives import AGENT_DEV, Alternative, find_alternatives, last_line
from benchmarks.measure import Row, Section, Subject
from benchmarks.process import PYTHON, ProgramFailed
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Compared with other sandboxes"
_LINE = "the quick brown fox jumps over the lazy dog\n"
_AGENT = f"""
import os
for n in range(COUNT):
    with open(f"src/{{n // 100}}/{{n}}.txt", "a") as file:
        file.write("edited\\n")
    os.makedirs(f"new/{{n // 100}}", exist_ok=True)
    with open(f"new/{{n // 100}}/{{n}}.txt", "w") as file:
        file.write({_LINE!r} * 40 + "new\\n")
"""
_PASSES = 3
_WITHIN = 120.0  # seconds for a table: some alternatives start several processes for each file
_KINDS = ("read", "start")
_MEASURE = Callable[[Alternative], dict[str, float]]


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure the start, a job and its merge, and the work inside, each with all alternatives in turns."""
    files = {f"src/{n // 20}/{n}.py": b"value = 1\n" * 50 for n in range(200)}
    repo = repository(workdir.folder / "compared", workdir.env, files)
    found = find_alternatives(workdir, repo)
    return (
        _start(found.runnable, repo, found.remarks),
        *_job(found.runnable, workdir),
        _inside(found.runnable, workdir),
    )


def _start(alternatives: Sequence[Alternative], repo: Path, remarks: tuple[str, ...]) -> Section:
    def started(alternative: Alternative) -> dict[str, float]:
        with alternative.prepared():
            time.sleep(measure.REST)
            return {"took": process.elapsed_time((*alternative.words, "/usr/bin/true"), alternative.env)}

    with contextlib.chdir(repo):
        found, failed = _measured(alternatives, started, measure.rounds(3))
    about = (
        "`true` from exec to exit, in a repository of 200 files. `bwrap` is that of the start-up benchmark. `git worktree` is "
        "`git worktree add`, `rsync` and `cp -a` copy all, without the removal. `codex sandbox` is started without its npm "
        "launcher."
    )
    return Section(f"{TITLE}: start", about, _rows(found, {"took": ""}), (*remarks, *failed))


def _job(alternatives: Sequence[Alternative], workdir: WorkingDirectory) -> tuple[Section, Section]:
    count = measure.size(1500, 30)
    files = {f"src/{n // 100}/{n}.txt": f"{n}\n{_LINE * 40}".encode() for n in range(2 * count)}
    files["agent.py"] = f"COUNT = {count}\n{_AGENT}".encode()
    original = repository(workdir.folder / "job", workdir.env, files)
    numbers = itertools.count()

    def worked(alternative: Alternative) -> dict[str, float]:
        repo = workdir.folder / f"job-{next(numbers)}"  # none is removed: see Alternative.prepared
        process.output(("cp", "-a", str(original), str(repo)), workdir.env)
        process.output(("git", "-C", str(repo), "status", "--short"), workdir.env)  # renews the index
        _sync(repo, workdir)
        with alternative.prepared(), contextlib.chdir(repo):
            job = process.elapsed_time((*(alternative.job or ()), PYTHON, "agent.py"), alternative.env)
            applied = process.elapsed_time(alternative.apply, alternative.env) if alternative.apply else 0.0
            synced = _sync(repo, workdir)
        _expect_applied(repo, alternative, count)
        took = {"took": job + applied, "synced": job + applied + synced}
        return took | ({"merge": applied, "merge synced": applied + synced} if alternative.apply else {})

    able = [alternative for alternative in alternatives if alternative.job is not None]
    found, remarks = _measured(able, worked, measure.rounds(12))
    about = (
        f"An agent edits {count:,} of {2 * count:,} files of 1.8 KB and adds {count:,}; then everything is applied to the "
        "repository. agent-dev: run, `merge --all`; git: `worktree add`, `commit`, `merge`; rsync and cp: a copy there and back. "
        "codex and sandbox-runtime write directly, so this is the job alone. Removing a session or a copy is not included. Only "
        "agent-dev waits until the changes are on the disk, as the rows with `sync -f` do for the others. Only agent-dev and git "
        "detect that files have changed since, and only agent-dev looks for risky changes and can undo. `cp -a` deletes nothing."
    )
    about_merge = (
        "The part of each job that applies its changes, in the same rounds: `agent-dev merge --all`; git: `add`, `commit`, "
        "`merge`; rsync and cp: the copy back; try: `try -y commit`, which enters its sandbox again; agent-dev-env: "
        "`merge-overlay`."
    )
    return (
        Section(f"{TITLE}: a job", about, _rows(found, {"took": "", "synced": ", then `sync -f`"}), remarks),
        Section(f"{TITLE}: merging", about_merge, _rows(found, {"merge": "", "merge synced": ", then `sync -f`"}), remarks),
    )


def _inside(alternatives: Sequence[Alternative], workdir: WorkingDirectory) -> Section:
    line = b"the quick brown fox jumps over the lazy dog, again and again\n"
    files = {f"src/part{n // 100}/file{n}.txt": f"{n}\n".encode() + line * 66 for n in range(workload.READ)}
    files["workload.py"] = Path(workload.__file__).read_bytes()
    repo = repository(workdir.folder / "compared-inside", workdir.env, files)
    script = (PYTHON, "-I", "-S", "-B", f"{repo}/workload.py", str(_PASSES), *_KINDS)

    def worked(alternative: Alternative) -> dict[str, float]:
        with alternative.prepared():
            lines = process.output((*alternative.words, *script), alternative.env).splitlines()
        (found,) = (line for line in lines if line.startswith("{"))  # agent-dev-env also prints messages
        return {str(label): float(figure) for label, figure in json.loads(found).items()}

    labels = {f"read {workload.READ:,} files": ": read 2,000 files", f"start {workload.SPAWN} processes": ": start 300 processes"}
    with contextlib.chdir(repo):
        able = [alternative for alternative in alternatives if alternative.is_sandbox or not alternative.words]
        figures, failed = _measured(able, worked, measure.rounds(6))
    about = (
        f"The fastest of {_PASSES} passes within one sandbox; a new sandbox each round. Worktrees and copies are no sandboxes: "
        "the row without one holds for them."
    )
    return Section(f"{TITLE}: inside", about, _rows(figures, labels), failed)


def _measured(
    alternatives: Sequence[Alternative], work: _MEASURE, count: int
) -> tuple[dict[str, measure.Figures], tuple[str, ...]]:
    """Measure in turns; return the figures, and remarks on failures and rounds."""
    subjects, failed = _runnable(alternatives, work)
    found = measure.in_turns(subjects, count, 0, in_order=False, within=_WITHIN)
    rounds = len(next(iter(found[AGENT_DEV].values())))
    return found, (*failed, f"Rounds: {rounds}.")


def _rows(found: dict[str, measure.Figures], labels: dict[str, str]) -> tuple[Row, ...]:
    """Return the rows, label by label, with ratios to agent-dev."""
    rows = []
    for label, text in labels.items():
        ours = found[AGENT_DEV][label]
        for name, figures in found.items():
            if label in figures:
                is_ours = name == AGENT_DEV
                ratio = None if is_ours else measure.ratio(figures[label], ours)
                rows.append(Row(f"{name}{text}", measure.spread(figures[label]), "" if is_ours else AGENT_DEV, ratio))
    return tuple(rows)


def _runnable(alternatives: Sequence[Alternative], work: _MEASURE) -> tuple[list[Subject], tuple[str, ...]]:
    """Do the work once with each, which also fills caches; agent-dev may not fail."""
    subjects, failed = [], []
    for alternative in alternatives:
        try:
            work(alternative)
        except ProgramFailed as error:
            if alternative.name == AGENT_DEV:
                raise
            failed.append(f"{alternative.name} was not measured: {last_line(error)}")
        else:
            subjects.append(Subject(alternative.name, functools.partial(work, alternative)))
    return subjects, tuple(failed)


def _sync(repo: Path, workdir: WorkingDirectory) -> float:
    return process.elapsed_time(("/usr/bin/sync", "-f", str(repo)), workdir.env)


def _expect_applied(repo: Path, alternative: Alternative, count: int) -> None:
    edited = sum(path.read_bytes().endswith(b"edited\n") for path in repo.glob("src/*/*.txt"))
    new = sum(path.read_bytes().endswith(b"new\n") for path in repo.glob("new/*/*.txt"))
    if (edited, new) != (count, count):
        raise ProgramFailed(f"{alternative.name} applied {edited} edited and {new} new files")
