"""Large merges: 100,000 new files against `rsync -a` of the same, the plan alone, and a sparse file of 10 GB."""

import contextlib
import os
import shutil
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Spread, Subject
from benchmarks.working_directory import PYTHON, WorkingDirectory, remove, repository

TITLE = "Merging much"
_COUNT = int(os.environ.get("AGENT_DEV_BENCH_FILES", "100000"))
_ROUNDS = 3
_PLAN_LIMIT, _SPARSE_LIMIT, _MEMORY_LIMIT = 1500.0, 1000.0, 300  # ms, ms, MB
MAKE = f"""
import os
for n in range({_COUNT}):
    folder = f"new/{{n // 1000}}/{{n // 100}}"
    if n % 100 == 0:
        os.makedirs(folder)
    with open(f"{{folder}}/{{n}}.txt", "w") as file:
        file.write(f"{{n}}\\n" + "the quick brown fox jumps over the lazy dog\\n" * 40)
"""
# An open session: its changes and the entries of the real tree are known.
_PLAN = """
import os, time
from agent_dev.merge import merge, select_by_options; from agent_dev.session import sessions
from agent_dev.config.options import RunOptions
from agent_dev.cli.commands.review.open_review import open_locked
context = sessions.command_context(RunOptions(), dict(os.environ))
with open_locked(sessions.find_session(context, "bench"), context) as review:
    start = time.perf_counter()
    selection, requested = select_by_options.select_requested(review, select_by_options.SelectionRequest(select_all=True))
    plan = merge.plan_selection(review, selection, requested)
    print((time.perf_counter() - start) * 1000, len(plan.selected))
"""
_SPARSE = """
with open("sparse", "wb") as file:
    file.write(b"head")
    file.seek(10 << 30)
    file.write(b"tail")
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Let an agent create the files; plan, merge and undo them, and copy them as durably, round by round."""
    scripts = {"make.py": MAKE.encode(), "sparse.py": _SPARSE.encode()}
    repo = repository(workdir.folder / "large", workdir.env, {"a.txt": b"a\n"} | scripts)
    source = workdir.folder / "large-source"
    source.mkdir()
    with contextlib.chdir(source):
        process.elapsed_time((PYTHON, str(repo / "make.py")), workdir.env)
    with contextlib.chdir(repo):
        found = measure.in_turns(_subjects(workdir, repo, source), _ROUNDS, 0)
    ours, peer = found["agent-dev"], found["rsync -a"]["copy"]
    against = f"{_copier()}, sync -f"
    rows = [
        _row("agent-dev merge --all", ours["merge"], against, peer),
        Row(against, measure.spread(peer)),
        _row("agent-dev undo", ours["undo"], "agent-dev merge --all", ours["merge"]),
        Row("the plan, in an open session", measure.spread(ours["plan"]), limit=_PLAN_LIMIT),
        Row("agent-dev merge --all --dry-run", measure.spread(ours["dry run"])),
        Row("merge --all, 10 GB sparse", measure.spread(ours["sparse"]), limit=_SPARSE_LIMIT),
        Row("undo, 10 GB sparse", measure.spread(ours["sparse undo"]), limit=_SPARSE_LIMIT),
    ]
    peak = max(ours["peak"])
    verdict = "met" if peak <= _MEMORY_LIMIT else "**not met**"
    return (
        Section(
            TITLE,
            f"{_COUNT:,} new files of 1.8 KB in a new directory, made by an agent, into a repository on the same disk; all is on "
            "the disk at the end. The dry run is timed from start to exit: it also reads every file and searches it for risks.",
            tuple(rows),
            (f"Memory of the dry run: {peak:.0f} MB at its highest; at most {_MEMORY_LIMIT} MB are wanted, which is {verdict}.",),
        ),
    )


def _row(label: str, figures: list[float], against: str, peer: list[float]) -> Row:
    ratio: Spread = measure.ratio(figures, peer)
    return Row(label, measure.spread(figures), against, ratio, 1.0)


def _copier() -> str:
    return "rsync -a" if shutil.which("rsync") else "cp -a"


def _subjects(workdir: WorkingDirectory, repo: Path, source: Path) -> list[Subject]:
    copy = f"{_copier()} {source}/new {repo}/ && sync -f {repo}"
    return [
        Subject("agent-dev", lambda: _merged(workdir, repo) | _sparse(workdir)),
        Subject("rsync -a", lambda: _copied(("/bin/sh", "-c", copy), workdir, repo)),
    ]


def _merged(workdir: WorkingDirectory, repo: Path) -> dict[str, float]:
    process.elapsed_time((workdir.program, "--no-merge", "--name", "bench", "--", PYTHON, "make.py"), workdir.env)
    process.elapsed_time(("/usr/bin/sync", "-f", str(repo)), workdir.env)
    took = {
        "plan": _planned(workdir),
        "dry run": process.elapsed_time((workdir.program, "merge", "bench", "--all", "--dry-run"), workdir.env),
    }
    took["peak"] = _peak((workdir.program, "merge", "bench", "--all", "--dry-run"), workdir.env)
    for name, arguments in (("merge", ("merge", "bench", "--all")), ("undo", ("undo",))):
        took[name] = process.elapsed_time((workdir.program, *arguments), workdir.env)
        _expect(repo, _COUNT if name == "merge" else 0)
    process.elapsed_time((workdir.program, "discard", "bench"), workdir.env)
    return took


def _planned(workdir: WorkingDirectory) -> float:
    """Return the milliseconds from an open session to the plan of merging everything."""
    took, taken = process.output((workdir.python, "-c", _PLAN), workdir.env).split()
    if int(taken) != _COUNT:
        raise process.ProgramFailed(f"{taken} of {_COUNT} files are in the plan")
    return float(took)


def _peak(argv: tuple[str, ...], env: dict[str, str]) -> float:
    """Return the peak memory of a program in MB."""
    pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, used = os.wait4(pid, 0)
    if status:
        raise process.ProgramFailed(f"{status} of: {' '.join(argv)}")
    return used.ru_maxrss / 1024


def _sparse(workdir: WorkingDirectory) -> dict[str, float]:
    process.elapsed_time((workdir.program, "--no-merge", "--name", "hole", "--", PYTHON, "sparse.py"), workdir.env)
    took = {
        "sparse": process.elapsed_time((workdir.program, "merge", "hole", "--all", "--include-risky"), workdir.env),
        "sparse undo": process.elapsed_time((workdir.program, "undo"), workdir.env),
    }
    process.elapsed_time((workdir.program, "discard", "hole"), workdir.env)
    return took


def _copied(argv: tuple[str, ...], workdir: WorkingDirectory, repo: Path) -> dict[str, float]:
    process.elapsed_time(("/usr/bin/sync", "-f", str(repo)), workdir.env)
    took = process.elapsed_time(argv, workdir.env)
    _expect(repo, _COUNT)
    remove(repo / "new")
    return {"copy": took}


def _expect(repo: Path, count: int) -> None:
    created = sum(len(files) for _, _, files in os.walk(repo / "new"))
    if created != count:
        raise process.ProgramFailed(f"{created} files instead of {count} are in {repo / 'new'}")
