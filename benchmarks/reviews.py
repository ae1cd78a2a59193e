"""Review a session of 3,400 changed files, redo its merge, and create many ignored files in a run.

AGENT_DEV_BENCH_REPOSITORY names a checkout whose files are used instead of generated ones.
"""

import contextlib
import os
import statistics
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Figures, Row, Section, Subject
from benchmarks.process import PYTHON
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Looking at a session"
_FILES, _CHANGED, _IGNORED = measure.size((4_900, 3_400, 5_000), (49, 34, 50))
_ROUNDS, _WITHIN = 5, 90.0  # seconds
_END, _ONE_FILE, _REDO = 1500.0, 300.0, 5000.0  # ms of processor time
_STATUS = (2, 300.0)  # times `git status`, plus ms
_SENTENCES = (
    "static int read_entry(struct reader *in, size_t count) { return count ? in->next : -1; }",
    'msgstr "нет, это не так: запись не найдена, повторите попытку позже"',
    'msgstr "これは日本語の文章です。もう一度やり直してください。"',
    "msgstr \"l'été à Noël, « çà et là », où l'œuvre naît\"",
)
_CHANGE = f"""
import os
done = 0
for above, folders, files in os.walk("."):
    folders[:] = sorted(name for name in folders if name != ".git")
    for name in sorted(files):
        if done < {_CHANGED} and not os.path.islink(f"{{above}}/{{name}}") and not name.endswith(".py"):
            with open(f"{{above}}/{{name}}", "a") as file:
                file.write("# a line of the agent's\\n")
            done += 1
"""
_FILL = f"""
import os
for n in range({_IGNORED}):
    folder = f"node_modules/p{{n // 100}}/lib"
    if n % 100 == 0:
        os.makedirs(folder)
    with open(f"{{folder}}/{{n}}.js", "w") as file:
        file.write(f"exports.n = {{n}};\\n" * 40)
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Change, review, merge, undo and redo files, and fill an ignored directory, round by round."""
    scripts = {"change.py": _CHANGE.encode(), "fill.py": _FILL.encode(), ".gitignore": b"node_modules/\n"}
    checkout = os.environ.get("AGENT_DEV_BENCH_REPOSITORY")
    repo = repository(
        workdir.folder / "reviews", workdir.env, (_tracked_files(Path(checkout)) if checkout else _texts()) | scripts
    )
    with contextlib.chdir(repo):
        found = measure.in_turns(_subjects(workdir, repo), _ROUNDS, 0, within=_WITHIN)
    ours, git, bare = found["agent-dev"], found["git"], found["bare"]
    status = _STATUS[0] * statistics.median(git["status"]) + _STATUS[1]
    rows = (
        Row("a run that changes them, without what the agent itself takes", measure.spread(ours["run"]), limit=_END),
        _row("agent-dev status, the first time", ours, "status", "git status", git["status"], limit=status),
        _row("agent-dev status, again", ours, "status again", "git status", git["status"], limit=status),
        Row("agent-dev diff FILE", measure.spread(ours["diff"]), limit=_ONE_FILE),
        Row("agent-dev merge --all", measure.spread(ours["merge"])),
        Row("agent-dev undo", measure.spread(ours["undo"])),
        Row("agent-dev redo", measure.spread(ours["redo"]), limit=_REDO),
        # Without a target, which is one for `npm ci`: that takes seconds for the work that this leaves out.
        _row(f"a run that makes {_IGNORED:,} files that git ignores, by the clock", ours, "fill", "bare", bare["fill"]),
        Row("the same in processor time, without what the agent itself takes", measure.spread(ours["fill used"])),
    )
    files = "A checkout of a real project" if checkout else f"A repository of {_FILES:,} texts, every fourth of them ASCII"
    about = (
        f"{files}, of which an agent changes {_CHANGED:,}. Processor time, in ms, of each command and the children that it waits "
        "for, without the sandbox. "
        f"The limit of `status` is {_STATUS[0]} times `git status` of the same changes in the tree, and {_STATUS[1]:.0f} ms."
    )
    return (Section(TITLE, about, rows),)


def _tracked_files(folder: Path) -> dict[str, bytes]:
    """Return the regular files that git tracks in a checkout."""
    names = process.output(("/usr/bin/git", "-C", str(folder), "ls-files", "-z"), dict(os.environ)).split("\0")
    paths = ((name, folder / name) for name in names if name and name != ".gitattributes")
    return {name: path.read_bytes() for name, path in paths if path.is_file() and not path.is_symlink()}


def _row(
    label: str, ours: Figures, name: str, against: str, peer: list[float], target: float | None = None, **more: float
) -> Row:
    return Row(label, measure.spread(ours[name]), against, measure.ratio(ours[name], peer), target, **more)


def _texts() -> dict[str, bytes]:
    """Return texts in four scripts, of 2 to 20 KB."""
    lines = [(sentence + " {}\n").encode() for sentence in _SENTENCES]
    return {
        f"src/d{n % 70}/f{n}.txt": lines[n % len(lines)].replace(b"{}", b"%d" % n) * (20 + n * 7 % 160) for n in range(_FILES)
    }


def _one_of(repo: Path) -> str:
    """Return a file that the agent changes."""
    return "Makefile" if (repo / "Makefile").exists() else "src/d0/f0.txt"


def _subjects(workdir: WorkingDirectory, repo: Path) -> list[Subject]:
    env, git = workdir.env, ("/usr/bin/git", "-c", "core.fsmonitor=false")

    def used(*words: str) -> float:
        return process.processor_time((workdir.program, *words), env)

    def without() -> dict[str, float]:
        took = {"fill": process.elapsed_time((PYTHON, "fill.py"), env)}
        process.output((*git, "clean", "-qfdx", "."), env)
        return took

    def status() -> dict[str, float]:
        process.output((PYTHON, "change.py"), env)
        took = {"status": process.processor_time((*git, "status", "--short"), env)}
        undo_changes()
        return took

    def undo_changes() -> None:
        process.output((*git, "checkout", "-q", "."), env)
        process.output((*git, "status", "--short"), env)

    def ours() -> dict[str, float]:
        found = {"run": used("--no-merge", "--name", "bench", "--", PYTHON, "change.py")}
        found |= {name: used("status", "bench") for name in ("status", "status again")}
        found |= {"diff": used("diff", "bench", "--", _one_of(repo)), "merge": used("merge", "bench", "--all")}
        found |= {name: used(name) for name in ("undo", "redo")}
        found["fill"] = process.elapsed_time((workdir.program, "--no-merge", "--name", "filled", "--", PYTHON, "fill.py"), env)
        used("discard", "filled")
        found["fill used"] = used("--no-merge", "--name", "filled", "--", PYTHON, "fill.py")
        used("discard", "filled")
        with contextlib.suppress(process.ProgramFailed):  # risky changes of a real checkout stay in a session
            used("discard", "bench")
        undo_changes()
        used("clean", "--all")
        return found

    assert os.getcwd() == str(repo)
    return [Subject("agent-dev", ours), Subject("bare", without), Subject("git", status)]
