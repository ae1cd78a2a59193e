"""Growth of commands: processor time for some changes of every kind, and for four times as many."""

import contextlib
import os
import shutil
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Growth"
_COUNT = measure.size(int(os.environ.get("AGENT_DEV_BENCH_GROWTH", "500")), 4)
_TIMES = 4
_LIMIT = 1.2 * _TIMES  # quadratic growth would give 16
_ROUNDS = measure.size(2, 1)
_AGENT = """mkdir added hidden names; for i in $(seq %d); do
echo $i >added/$i; echo $i >hidden/$i; sed -i 1s/first/agent/ edited/$i; rm gone/$i; mv moved/$i names/; ln -s x links/$i
echo agent >>both/$i; done"""
_LINES = b"first\nsecond\nthird\nfourth\nfifth\n"
_MERGE = ("merge", "--all", "--include-risky", "--take", "hidden", "--yes-delete-many")
# In this order: each prepares the next.
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("diff",),
    ("checkpoint",),
    ("diff", "1.."),
    ("deleted",),
    ("rollback", "1"),
    ("rollback", "2"),
    ("resume", "--", "true"),
    ("merge", "--all", "--dry-run"),
    _MERGE,
    ("undo",),
    ("redo",),
    ("undo", "--three-way"),
    ("redo",),
)


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Let an agent make the changes in a small and a large repository, and run each command in both."""
    found: dict[int, list[dict[str, float]]] = {_COUNT: [], _TIMES * _COUNT: []}
    for _ in range(_ROUNDS):
        for count, rounds in found.items():
            rounds.append(_round(workdir, count))
    rows: list[Row] = []
    for label in found[_COUNT][0]:
        few, many = ([one[label] for one in found[count]] for count in found)
        rows.append(Row(f"{label}: {_COUNT:,}", measure.spread(few)))
        rows.append(Row(f"{label}: {_TIMES * _COUNT:,}", measure.spread(many), f"{_COUNT:,}", measure.ratio(many, few), _LIMIT))
    about = (
        f"Processor time of a command in a session with {_COUNT:,} and {_TIMES * _COUNT:,} changes of each of these kinds: a "
        "file added, ignored by git, edited, deleted, renamed, edited by the user too; a link added. Linear growth means "
        f"{_TIMES} times the time, without the start; quadratic growth {_TIMES * _TIMES} times."
    )
    return (Section(TITLE, about, tuple(rows)),)


def _round(workdir: WorkingDirectory, count: int) -> dict[str, float]:
    folder = workdir.folder / f"growth-{count}"
    folders = ("edited", "gone", "moved", "both")
    files = {f"{name}/{n}": _LINES + b"%d\n" % n for name in folders for n in range(1, count + 1)}
    repo = repository(folder, workdir.env, {".gitignore": b"hidden/\n", "links/kept": b"", **files})
    env = workdir.env_with(workdir.bwraps[0])
    took: dict[str, float] = {}
    with contextlib.chdir(repo):
        arguments = ("--no-merge", "--name", f"growth-{count}", "--", "sh", "-c", _AGENT % count)
        took["a run"] = process.processor_time((workdir.program, *arguments), env)
        _edit(repo / "both", b"second")
        for command in _COMMANDS:
            again = f"{' '.join(command)} (again)"
            name = again if " ".join(command) in took else " ".join(command)
            if command == ("undo", "--three-way"):
                _edit(repo / "edited", b"fifth")
            took[name] = process.processor_time((workdir.program, *command), env)
        process.processor_time((workdir.program, "discard"), env)
    shutil.rmtree(folder)
    return took


def _edit(folder: Path, line: bytes) -> None:
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes().replace(line, b"user"))
