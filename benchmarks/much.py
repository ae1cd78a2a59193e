"""How long much takes: 100,000 new files against `rsync -a` of the same, the plan alone, and a sparse file of 10 GB."""

import contextlib
import os
import shutil
from pathlib import Path

from benchmarks import measure, process
from benchmarks.ground import PYTHON, Ground, remove, repository
from benchmarks.measure import Row, Section, Spread, Subject

TITLE = "Merging much"
_COUNT = int(os.environ.get("AGENT_DEV_BENCH_FILES", "100000"))
_ROUNDS = 3
_PLAN_LIMIT, _SPARSE_LIMIT, _MEMORY_LIMIT = 1500.0, 1000.0, 300  # ms, ms, MB
_MAKE = f"""
import os
for n in range({_COUNT}):
    folder = f"new/{{n // 1000}}/{{n // 100}}"
    if n % 100 == 0:
        os.makedirs(folder)
    with open(f"{{folder}}/{{n}}.txt", "w") as file:
        file.write(f"{{n}}\\n" + "the quick brown fox jumps over the lazy dog\\n" * 40)
"""
# A session that is open: what its changes are is known, and what stands in the real tree.
_PLAN = """
import os, time
from agent_dev.merge import merge, pick, sessions
from agent_dev.run.prepare import Options
from agent_dev.cli.commands.open_review import opened
where = sessions.here(Options(), dict(os.environ))
with opened(sessions.find(where, "bench"), where) as review:
    start = time.perf_counter()
    chosen, asked = pick.choose(review, pick.Wish(is_everything=True))
    planned = merge.plan(review, chosen, asked)
    print((time.perf_counter() - start) * 1000, len(planned.taken))
"""
_SPARSE = """
with open("sparse", "wb") as file:
    file.write(b"head")
    file.seek(10 << 30)
    file.write(b"tail")
"""


def run(ground: Ground) -> tuple[Section, ...]:
    """Let an agent make the files, plan, merge and undo them; copy them as durably; round by round."""
    scripts = {"make.py": _MAKE.encode(), "sparse.py": _SPARSE.encode()}
    repo = repository(ground.folder / "large", ground.env, {"a.txt": b"a\n"} | scripts)
    source = ground.folder / "large-source"
    source.mkdir()
    with contextlib.chdir(source):
        process.timed((PYTHON, str(repo / "make.py")), ground.env)
    with contextlib.chdir(repo):
        found = measure.in_turns(_subjects(ground, repo, source), _ROUNDS, 0)
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
    word = "met" if peak <= _MEMORY_LIMIT else "**not met**"
    return (
        Section(
            TITLE,
            f"{_COUNT:,} new files of 1.8 KB in a new directory, made by an agent, into a repository on the same disk; all is on "
            "the disk at the end. The dry run is told from start to exit: it also reads every file and looks for risks in it.",
            tuple(rows),
            (f"Memory of the dry run: {peak:.0f} MB at its highest; at most {_MEMORY_LIMIT} MB are wanted, which is {word}.",),
        ),
    )


def _row(what: str, figures: list[float], against: str, peer: list[float]) -> Row:
    ratio: Spread = measure.ratio(figures, peer)
    return Row(what, measure.spread(figures), against, ratio, 1.0)


def _copier() -> str:
    return "rsync -a" if shutil.which("rsync") else "cp -a"


def _subjects(ground: Ground, repo: Path, source: Path) -> list[Subject]:
    copy = f"{_copier()} {source}/new {repo}/ && sync -f {repo}"
    return [
        Subject("agent-dev", lambda: _merged(ground, repo) | _sparse(ground)),
        Subject("rsync -a", lambda: _copied(("/bin/sh", "-c", copy), ground, repo)),
    ]


def _merged(ground: Ground, repo: Path) -> dict[str, float]:
    process.timed((ground.program, "--no-merge", "--name", "bench", "--", PYTHON, "make.py"), ground.env)
    process.timed(("/usr/bin/sync", "-f", str(repo)), ground.env)
    took = {
        "plan": _planned(ground),
        "dry run": process.timed((ground.program, "merge", "bench", "--all", "--dry-run"), ground.env),
    }
    took["peak"] = _peak((ground.program, "merge", "bench", "--all", "--dry-run"), ground.env)
    for name, words in (("merge", ("merge", "bench", "--all")), ("undo", ("undo",))):
        took[name] = process.timed((ground.program, *words), ground.env)
        _expect(repo, _COUNT if name == "merge" else 0)
    process.timed((ground.program, "discard", "bench"), ground.env)
    return took


def _planned(ground: Ground) -> float:
    """Return the milliseconds from an open session to the plan of a merge of all of it."""
    took, taken = process.output((ground.python, "-c", _PLAN), ground.env).split()
    if int(taken) != _COUNT:
        raise process.ProgramFailed(f"{taken} of {_COUNT} files are in the plan")
    return float(took)


def _peak(words: tuple[str, ...], env: dict[str, str]) -> float:
    """Return the most memory that a program held, in MB."""
    pid = os.posix_spawn(words[0], words, env, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, used = os.wait4(pid, 0)
    if status:
        raise process.ProgramFailed(f"{status} of: {' '.join(words)}")
    return used.ru_maxrss / 1024


def _sparse(ground: Ground) -> dict[str, float]:
    process.timed((ground.program, "--no-merge", "--name", "hole", "--", PYTHON, "sparse.py"), ground.env)
    took = {
        "sparse": process.timed((ground.program, "merge", "hole", "--all", "--include-risky"), ground.env),
        "sparse undo": process.timed((ground.program, "undo"), ground.env),
    }
    process.timed((ground.program, "discard", "hole"), ground.env)
    return took


def _copied(words: tuple[str, ...], ground: Ground, repo: Path) -> dict[str, float]:
    process.timed(("/usr/bin/sync", "-f", str(repo)), ground.env)
    took = process.timed(words, ground.env)
    _expect(repo, _COUNT)
    remove(repo / "new")
    return {"copy": took}


def _expect(repo: Path, count: int) -> None:
    made = sum(len(files) for _, _, files in os.walk(repo / "new"))
    if made != count:
        raise process.ProgramFailed(f"{made} files instead of {count} are in {repo / 'new'}")
