"""Large merges: 100,000 new files against `cp -a`, rsync and git with the same, the plan alone, and a sparse file of 10 GB."""

import contextlib
import os

from benchmarks import measure, process
from benchmarks.comparison.copying import GIT, Copying
from benchmarks.measure import Row, Section, Subject
from benchmarks.process import PYTHON
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Merging much"
_ROUNDS = 3
_MERGE = "agent-dev merge --all"
_PLAN_LIMIT, _DRY_RUN_LIMIT, _SPARSE_LIMIT = 1500.0, 3000.0, 1000.0  # ms
_MAKE = """
import os
for n in range(COUNT):
    folder = f"new/{n // 1000}/{n // 100}"
    if n % 100 == 0:
        os.makedirs(folder)
    with open(f"{folder}/{n}.txt", "w") as file:
        file.write(f"{n}\\n" + "the quick brown fox jumps over the lazy dog\\n" * 40)
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
    count = count_of_files()
    scripts = {"make.py": make_files(count).encode(), "sparse.py": _SPARSE.encode()}
    repo = repository(workdir.folder / "large", workdir.env, {"a.txt": b"a\n"} | scripts)
    source = workdir.folder / "large-source"
    source.mkdir()
    with contextlib.chdir(source):
        process.elapsed_time((PYTHON, str(repo / "make.py")), workdir.env)
    copying = Copying(workdir, source, repo, count)
    others = copying.subjects(is_durable=True)
    with contextlib.chdir(repo):
        subjects = [Subject("agent-dev", lambda: _merged(copying) | _sparse(workdir)), *others]
        found = measure.in_turns(subjects, _ROUNDS, 0)
    ours = found["agent-dev"]
    rows = [Row(_MERGE, measure.spread(ours["merge"]))]
    for other in others:
        times = found[other.name]["copy"]
        rows.append(Row(other.name, measure.spread(times)))
        target = None if other.name.startswith(GIT) else 1.0
        rows.append(Row(_MERGE, measure.spread(ours["merge"]), other.name, measure.ratio(ours["merge"], times), target))
    rows += [
        Row("agent-dev undo", measure.spread(ours["undo"]), _MERGE, measure.ratio(ours["undo"], ours["merge"]), 1.0),
        Row("the plan, in an open session", measure.spread(ours["plan"]), limit=_PLAN_LIMIT),
        Row("agent-dev merge --all --dry-run", measure.spread(ours["dry run"]), limit=_DRY_RUN_LIMIT),
        Row("merge --all, 10 GB sparse", measure.spread(ours["sparse"]), limit=_SPARSE_LIMIT),
        Row("undo, 10 GB sparse", measure.spread(ours["sparse undo"]), limit=_SPARSE_LIMIT),
    ]
    about = (
        f"{count:,} new files of 1.8 KB in a new directory, made by an agent, into a repository on the same disk; all is on "
        "the disk at the end. The dry run is timed from start to exit: it also reads every file and searches it for risks. The "
        "work tree of git has the files already: its time is that of `add`, `commit` and a fast-forward."
    )
    return (Section(TITLE, about, tuple(rows)),)


def count_of_files() -> int:
    """Return how many files an agent makes: AGENT_DEV_BENCH_FILES (100,000)."""
    return measure.size(int(os.environ.get("AGENT_DEV_BENCH_FILES", "100000")), 200)


def make_files(count: int) -> str:
    """Return the script of an agent that makes so many files."""
    return f"COUNT = {count}\n{_MAKE}"


def _merged(copying: Copying) -> dict[str, float]:
    workdir = copying.workdir
    process.elapsed_time((workdir.program, "--no-merge", "--name", "bench", "--", PYTHON, "make.py"), workdir.env)
    copying.wait_for_disk()
    took = {
        "plan": _planned(workdir, copying.count),
        "dry run": process.elapsed_time((workdir.program, "merge", "bench", "--all", "--dry-run"), workdir.env),
    }
    for name, arguments in (("merge", ("merge", "bench", "--all")), ("undo", ("undo",))):
        took[name] = process.elapsed_time((workdir.program, *arguments), workdir.env)
        copying.expect(copying.count if name == "merge" else 0)
    process.elapsed_time((workdir.program, "discard", "bench"), workdir.env)
    return took


def _planned(workdir: WorkingDirectory, count: int) -> float:
    """Return the milliseconds from an open session to the plan of merging everything."""
    took, taken = process.output((workdir.python, "-c", _PLAN), workdir.env).split()
    if int(taken) != count:
        raise process.ProgramFailed(f"{taken} of {count} files are in the plan")
    return float(took)


def _sparse(workdir: WorkingDirectory) -> dict[str, float]:
    process.elapsed_time((workdir.program, "--no-merge", "--name", "hole", "--", PYTHON, "sparse.py"), workdir.env)
    took = {
        "sparse": process.elapsed_time((workdir.program, "merge", "hole", "--all", "--include-risky"), workdir.env),
        "sparse undo": process.elapsed_time((workdir.program, "undo"), workdir.env),
    }
    process.elapsed_time((workdir.program, "discard", "hole"), workdir.env)
    return took
