"""Peak memory and processor time of every command at 100,000 changes, and with many sessions, each measured once."""

import contextlib
import os

from benchmarks import measure, process
from benchmarks.many_files import MAKE
from benchmarks.measure import Row, Section
from benchmarks.working_directory import PYTHON, WorkingDirectory, repository

_COUNT = int(os.environ.get("AGENT_DEV_BENCH_FILES", "100000"))
_SESSIONS = 1_000
_MEMORY, _DRY_RUN, _STATUS = 200, 3000.0, 10_000.0  # MiB, ms, ms: `status` of 30,000 changes may take 3 s
_SAME = 1.3  # times what a command takes with one session: its limit with many
# In this order: each prepares the next.
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--no-merge", "--name", "bench", "--", PYTHON, "make.py"),
    ("status", "bench"),
    ("sessions",),
    ("merge", "bench", "--all", "--dry-run"),
    ("status", "bench", "--json"),
    ("diff", "bench", "--stat"),
    ("diff", "bench", "--", "new/0/1/110.txt"),
    ("commits", "bench"),
    ("checkpoint", "bench"),
    ("merge", "bench", "--all"),
    ("undo",),
    ("redo",),
    ("merges",),
    ("discard", "bench"),
)
_LIMITS = {"status bench": _STATUS, "merge bench --all --dry-run": _DRY_RUN}
# Makes waiting sessions without changes, which a run does not keep.
_WAIT = """
import os, sys, time
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
_WITH_SESSIONS: tuple[tuple[str, ...], ...] = (("--", "/usr/bin/true"), ("status", "first"), ("diff", "first"), ("log", "first"))


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure commands with many changes, then with many sessions."""
    return (_many_changes(workdir), _many_sessions(workdir))


def _many_changes(workdir: WorkingDirectory) -> Section:
    repo = repository(workdir.folder / "scale", workdir.env, {"a.txt": b"a\n", "make.py": MAKE.encode()})
    with contextlib.chdir(repo):
        used = {_label(words): process.usage((workdir.program, *words), workdir.env) for words in _COMMANDS}
    rows = tuple(Row(label, measure.spread([one.milliseconds] * 2), limit=_LIMITS.get(label)) for label, one in used.items())
    peak, worst = max((one.peak, label) for label, one in used.items())
    verdict = "met" if peak <= _MEMORY else "**not met**"
    peaks = ", ".join(f"{label} {one.peak:.0f}" for label, one in used.items())
    return Section(
        "Many changes",
        f"Processor time of commands, measured once each, in a session with {_COUNT:,} new files of 1.8 KB.",
        rows,
        (
            f"Peak memory of one process: {peak:.0f} MiB ({worst}); at most {_MEMORY} MiB are wanted, which is {verdict}.",
            f"In MiB: {peaks}.",
        ),
    )


def _label(words: tuple[str, ...]) -> str:
    return "the run" if words[0].startswith("--") else " ".join(words)


def _many_sessions(workdir: WorkingDirectory) -> Section:
    repo = repository(workdir.folder / "sessions", workdir.env, {"a.txt": b"a\n"})
    with contextlib.chdir(repo):
        process.usage((workdir.program, "--no-merge", "--name", "first", "--", "/bin/sh", "-c", "echo b >b.txt"), workdir.env)
        few = [_with_sessions(workdir) for _ in range(measure.rounds(12))]
        process.output((workdir.python, "-c", _WAIT, str(_SESSIONS)), workdir.env)
        many = [_with_sessions(workdir) for _ in range(measure.rounds(12))]
    rows: list[Row] = []
    for label in few[0]:
        one, other = [figures[label] for figures in few], [figures[label] for figures in many]
        rows.append(Row(f"{label}: 1 session", measure.spread(one)))
        rows.append(Row(f"{label}: {_SESSIONS:,} more", measure.spread(other), "1 session", measure.ratio(other, one), _SAME))
    about = f"Processor time with one waiting session of a repository, and with {_SESSIONS:,} more."
    return Section("Many sessions", about, tuple(rows))


def _with_sessions(workdir: WorkingDirectory) -> dict[str, float]:
    return {" ".join(words): process.processor_time((workdir.program, *words), workdir.env) for words in _WITH_SESSIONS}
