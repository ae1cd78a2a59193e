"""Growth with what agent-dev keeps and with the repository: merges, lines of a log, files of the repository."""

import contextlib

from benchmarks import measure, process
from benchmarks.measure import Row, Section
from benchmarks.working_directory import WorkingDirectory, repository

_MERGES, _LINES, _FILES = 300, 1_000_000, 200_000
_FEW = 100  # times fewer
_SAME = 1.3  # times: what a command may take more
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
_AGENT = ("/bin/sh", "-c", "echo b >b.txt")
Figures = dict[str, list[float]]


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure commands with few and with many of each."""
    return (_with_merges(workdir), _with_lines(workdir), _with_files(workdir))


def _with_merges(workdir: WorkingDirectory) -> Section:
    repo = repository(workdir.folder / "merges", workdir.env, {"a.txt": b"a\n"})
    commands = (("--", "/usr/bin/true"), ("status",), ("merges",), ("undo",), ("redo",))
    with contextlib.chdir(repo):
        _merge(workdir, 0)
        few = _figures(workdir, commands)
        for number in range(1, _MERGES):
            _merge(workdir, number)
        many = _figures(workdir, commands)
    about = f"Processor time after one merge, and after {_MERGES}, each of a session of its own."
    return Section("Many merges", about, _rows(few, many, "1 merge", f"{_MERGES} merges"))


def _merge(workdir: WorkingDirectory, number: int) -> None:
    process.output((workdir.program, "tx", "--", "/bin/sh", "-c", f"echo {number} >f{number}"), workdir.env)


def _with_lines(workdir: WorkingDirectory) -> Section:
    repo = repository(workdir.folder / "lines", workdir.env, {"a.txt": b"a\n"})
    commands = (("status", "first"), ("diff", "first"), ("log", "first"), ("resume", "first", "--", "/usr/bin/true"))
    with contextlib.chdir(repo):
        process.usage((workdir.program, "--no-merge", "--name", "first", "--", *_AGENT), workdir.env)
        few = _figures(workdir, commands)
        kept = int(process.output((workdir.python, "-c", _WRITE, str(_LINES)), workdir.env))
        many = _figures(workdir, commands)
        printed = process.usage((workdir.program, "log", "first", "--commands"), workdir.env)
    remark = f"`log --commands` prints {kept:,} lines in {printed.milliseconds:.0f} ms, with {printed.peak:.0f} MiB."
    about = (
        f"Processor time with an empty log of commands, and with one to which {_LINES:,} lines were written; "
        f"it keeps {kept:,} and counts the others."
    )
    return Section("A long log", about, _rows(few, many, "empty", f"{_LINES:,} lines"), (remark,))


def _with_files(workdir: WorkingDirectory) -> Section:
    commands = (
        ("--", "/usr/bin/true"),
        ("--no-merge", "--name", "first", "--", *_AGENT),
        ("status", "first"),
        ("discard", "first"),
    )
    found = {}
    for count in (_FILES // _FEW, _FILES):
        files = {f"src/{n // 200}/{n}.txt": b"%d\n" % n for n in range(count)}
        repo = repository(workdir.folder / f"files-{count}", workdir.env, files)
        with contextlib.chdir(repo):
            found[count] = _figures(workdir, commands)
    few, many = found.values()
    about = (
        f"Processor time in a repository of {_FILES // _FEW:,} files, and of {_FILES:,}. A session that changes something keeps "
        "the list of the repository's files."
    )
    return Section("Many files", about, _rows(few, many, f"{_FILES // _FEW:,} files", f"{_FILES:,} files"))


def _figures(workdir: WorkingDirectory, commands: tuple[tuple[str, ...], ...]) -> Figures:
    """Run the commands in turns; each prepares the next."""
    found: Figures = {}
    for _ in range(measure.rounds(12)):
        for words in commands:
            used = process.usage((workdir.program, *words), workdir.env)
            found.setdefault(_label(words), []).append(used.milliseconds)
    return found


def _label(words: tuple[str, ...]) -> str:
    names = {"--": "a start", "--no-merge": "a run that makes a file"}
    return names.get(words[0], words[0])


def _rows(few: Figures, many: Figures, one: str, other: str) -> tuple[Row, ...]:
    rows: list[Row] = []
    for label in few:
        rows.append(Row(f"{label}: {one}", measure.spread(few[label])))
        rows.append(Row(f"{label}: {other}", measure.spread(many[label]), one, measure.ratio(many[label], few[label]), _SAME))
    return tuple(rows)
