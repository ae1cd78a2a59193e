"""Merging: `merge --all` of 3,000 new files against `cp -a`, rsync and a merge of git for the same files, its undo and redo."""

import contextlib

from benchmarks import measure, process
from benchmarks.comparison.copying import Copying
from benchmarks.measure import Row, Section, Subject
from benchmarks.process import PYTHON
from benchmarks.working_directory import WorkingDirectory, remove, repository

TITLE = "Merging"
LIMIT = 350.0  # ms
_OURS = "agent-dev merge --all"
_MAKE = """
import os
for n in range(COUNT):
    os.makedirs(f"new/{n // 100}", exist_ok=True)
    with open(f"new/{n // 100}/{n}.txt", "w") as file:
        file.write(f"{n}\\n" + "the quick brown fox jumps over the lazy dog\\n" * 40)
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Let an agent create the files; merge them, copy them and remove them, round by round."""
    count = measure.size(3000, 50)
    files = {f"src/file{n}.py": b"value = 1\n" * 20 for n in range(200)}
    repo = repository(workdir.folder / "merging", workdir.env, files | {"make.py": f"COUNT = {count}\n{_MAKE}".encode()})
    source = workdir.folder / "merging-source"
    source.mkdir()
    with contextlib.chdir(source):
        process.elapsed_time((PYTHON, str(repo / "make.py")), workdir.env)
    copying = Copying(workdir, source, repo, count)
    others = [*copying.subjects(is_durable=False), *copying.subjects(is_durable=True)]
    with contextlib.chdir(repo):
        found = measure.in_turns([Subject(_OURS, lambda: _merged(copying)), *others], measure.rounds(5), 1)
    figures = {name: by_what["copy"] for name, by_what in found.items()}
    ours, fastest = figures[_OURS], others[0].name
    rows = [Row(_OURS, measure.spread(ours), limit=LIMIT)]
    for other in others:
        times = figures[other.name]
        rows.append(Row(other.name, measure.spread(times), _OURS, measure.ratio(times, ours)))
    for name in ("undo", "redo"):
        times = found[_OURS][name]
        rows.append(Row(f"agent-dev {name}", measure.spread(times), _OURS, measure.ratio(times, ours), 1.0))
    about = (
        f"{count:,} new files of 1.8 KB in {-(-count // 100)} directories, made by an agent, into a repository on the same disk. "
        "A merge ends when everything is on the disk. The others do not wait for that without `sync -f`. The work tree of git "
        "has the files already: its time is that of `add`, `commit` and a fast-forward."
    )
    return (Section(TITLE, about, tuple(rows), (measure.fastest(figures, fastest),)),)


def _merged(copying: Copying) -> dict[str, float]:
    """Time one merge, its undo and its redo, without the run before and the clean-up after."""
    env, program = copying.workdir.env, copying.workdir.program
    process.elapsed_time((program, "--no-merge", "--name", "bench", "--", PYTHON, "make.py"), env)
    took = {}
    for name, arguments in (("copy", ("merge", "bench", "--all")), ("undo", ("undo",)), ("redo", ("redo",))):
        copying.wait_for_disk()
        took[name] = process.elapsed_time((program, *arguments), env)
        copying.expect(0 if name == "undo" else copying.count)
    remove(copying.repo / "new")
    return took
