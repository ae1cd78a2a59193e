"""Growth with what agent-dev keeps and with the repository: sessions, merges, lines of a log, files of the repository."""

import contextlib
import functools
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Figures, Row, Section, Subject
from benchmarks.working_directory import WorkingDirectory, remove, repository

_SAME = 1.3  # times: what a command may take more, between the first and the last point
_AGENT = ("/bin/sh", "-c", "echo b >b.txt")
# Writes lines to the log of the session `first`.
_WRITE = """
import os, sys
from agent_dev.config.options import RunOptions
from agent_dev.session import hash_chain, sessions, store
context = sessions.command_context(RunOptions(), dict(os.environ))
one = sessions.find_session(context, "first")
session = one.session
log = hash_chain.LogWriter(f"{session.folder}/commands.jsonl")
row = {"time": 1, "decision": "allow", "pid": 7, "cwd": "/src", "argv": ["cc", "-c", "-O2", "file.c"]}
for _ in range(int(sys.argv[1]) // 1000):
    log.write([row] * 1000)
end = log.end
store.write_record(session, {**one.record, "commands": {"count": end.count, "chain": end.chain, "dropped": end.dropped}})
print(end.count)
"""
# Makes waiting sessions without changes, which a run does not keep.
_WAIT = """
import os, sys
from agent_dev.config.options import RunOptions
from agent_dev.session import sessions, store
context = sessions.command_context(RunOptions(), dict(os.environ))
one = sessions.find_session(context, "first")
for number in range(int(sys.argv[1])):
    made = store.create_session(context.store)
    store.add_root(made, 0, context.root)
    options = {**one.record["options"], "name": f"s{number}"}
    store.write_record(made, {**one.record, "name": f"s{number}", "options": options})
    store.unlock_session(made)
"""
_START, _RUN = "a start", "a run that makes a file"
_STEPS: dict[str, tuple[str, ...]] = {  # in this order: `discard` removes what the run made
    _START: ("--", "/usr/bin/true"),
    _RUN: ("--no-merge", "--name", "second", "--", *_AGENT),
    "discard": ("discard", "second"),
    "status": ("status", "first"),
    "diff": ("diff", "first"),
    "sessions": ("sessions",),
    "merges": ("merges",),
    "log": ("log", "first"),
    "resume": ("resume", "first", "--", "/usr/bin/true"),
}
_WITH_MERGES = _STEPS | {"undo": ("undo",), "redo": ("redo",)}
_PRINTS_ALL = "It prints a line for each, so that it has no target"


@dataclass(frozen=True, slots=True)
class _Point:
    """A repository with a home of its own, which holds so many of something, and a waiting session, `first`."""

    workdir: WorkingDirectory
    repo: Path
    env: dict[str, str]

    def output(self, *words: str) -> str:
        return process.output((self.workdir.program, *words), self.env, cwd=self.repo)

    def run_script(self, script: str, number: int) -> str:
        return process.output((self.workdir.python, "-c", script, str(number)), self.env, cwd=self.repo)

    def measured(self, steps: dict[str, tuple[str, ...]]) -> dict[str, float]:
        with contextlib.chdir(self.repo):
            return {name: process.processor_time((self.workdir.program, *words), self.env) for name, words in steps.items()}


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure commands with few, more and many of each."""
    return (_with_sessions(workdir), _with_merges(workdir), _with_lines(workdir), _with_files(workdir))


def _with_sessions(workdir: WorkingDirectory) -> Section:
    counts = measure.size((0, 300, 1_000), (0, 2, 4))
    points = {count: _point(workdir, f"sessions-{count}", 1) for count in counts}
    for count, point in points.items():
        point.run_script(_WAIT, count)
    found = _figures(points, _STEPS)
    first, *_, last = (measure.spread(figures["sessions"]).median for figures in found.values())
    each = (last - first) / counts[-1]
    about = "Processor time with one waiting session of a repository, and with more."
    remark = f"`sessions` takes {each:.2f} ms for each session. {_PRINTS_ALL}."
    return Section("Many sessions", about, _rows(found, "more sessions", without=("sessions",)), (remark,))


def _with_merges(workdir: WorkingDirectory) -> Section:
    counts = measure.size((1, 100, 300), (1, 2, 3))
    points = {count: _point(workdir, f"merges-{count}", 1) for count in counts}
    for count, point in points.items():
        for number in range(count):
            point.output("tx", "--", "/bin/sh", "-c", f"echo {number} >f{number}")
    about = "Processor time after one merge, and after more, each of a session of its own. There is a waiting session, too."
    return Section("Many merges", about, _rows(_figures(points, _WITH_MERGES), "merges"))


def _with_lines(workdir: WorkingDirectory) -> Section:
    counts = measure.size((0, 100_000, 1_000_000), (0, 1_000, 2_000))
    points = {count: _point(workdir, f"lines-{count}", 1) for count in counts}
    kept = [int(point.run_script(_WRITE, count)) for count, point in points.items()]
    found = _figures(points, _STEPS)
    last = points[counts[-1]]
    with contextlib.chdir(last.repo):
        printed = process.footprint((workdir.program, "log", "first", "--commands"), last.env)
    remark = f"`log --commands` prints {kept[-1]:,} lines in {printed.milliseconds:.0f} ms, with {printed.peak:.0f} MiB."
    about = (
        f"Processor time with so many lines written to the session's log of commands, which keeps {kept[-1]:,} of "
        f"{counts[-1]:,} and counts the others."
    )
    return Section("A long log", about, _rows(found, "lines"), (remark,))


def _with_files(workdir: WorkingDirectory) -> Section:
    counts = measure.size((2_000, 20_000, 200_000), (20, 200, 400))
    points = {count: _point(workdir, f"files-{count}", count) for count in counts}
    found = _figures(points, _STEPS)
    for point in points.values():
        remove(point.repo)
    about = (
        "Processor time in repositories with so many files. A session that changes something keeps the list of the "
        "repository's files."
    )
    return Section("Many files", about, _rows(found, "files"))


def _point(workdir: WorkingDirectory, name: str, files: int) -> _Point:
    home = workdir.folder / f"home-{name}"
    home.mkdir()
    env = workdir.env | {"HOME": str(home)}
    contents = {f"src/{n // 200}/{n}.txt": b"%d\n" % n for n in range(files)}
    point = _Point(workdir, repository(workdir.folder / name, env, contents), env)
    point.output("--no-merge", "--name", "first", "--", *_AGENT)
    return point


def _figures(points: dict[int, _Point], steps: dict[str, tuple[str, ...]]) -> dict[int, Figures]:
    """Run the commands at each point, the points in turns; return the figures by point and command."""
    subjects = [Subject(str(count), functools.partial(point.measured, steps)) for count, point in points.items()]
    found = measure.in_turns(subjects, measure.rounds(6), 1)
    return {count: found[str(count)] for count in points}


def _rows(found: dict[int, Figures], of_what: str, without: tuple[str, ...] = ()) -> tuple[Row, ...]:
    """Return rows with ratios to the first point; the last has a target, except for the commands `without` one."""
    (first, base), *_, (last, _) = found.items()
    against = _amount(first, of_what)
    rows = []
    for label in base:
        for count, figures in found.items():
            name = f"{label}: {_amount(count, of_what)}"
            if count == first:
                rows.append(Row(name, measure.spread(figures[label])))
                continue
            target = _SAME if count == last and label not in without else None
            rows.append(Row(name, measure.spread(figures[label]), against, measure.ratio(figures[label], base[label]), target))
    return tuple(rows)


def _amount(count: int, of_what: str) -> str:
    return f"{count:,} {of_what.removesuffix('s') if count == 1 else of_what}"
