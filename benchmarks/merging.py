"""Merging: `merge --all` of 3,000 new files against `cp -a` of the same files, and its undo and redo."""

import contextlib
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import PYTHON, WorkingDirectory, remove, repository

TITLE = "Merging"
LIMIT = 350.0  # ms
_COUNT = 3000
_MAKE = """
import os
for n in range(3000):
    os.makedirs(f"new/{n // 100}", exist_ok=True)
    with open(f"new/{n // 100}/{n}.txt", "w") as file:
        file.write(f"{n}\\n" + "the quick brown fox jumps over the lazy dog\\n" * 40)
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Let an agent create the files; merge them, copy them and remove them, round by round."""
    files = {f"src/file{n}.py": b"value = 1\n" * 20 for n in range(200)} | {"make.py": _MAKE.encode()}
    repo = repository(workdir.folder / "merging", workdir.env, files)
    source = workdir.folder / "merging-source"
    source.mkdir()
    with contextlib.chdir(source):
        process.elapsed_time((PYTHON, str(repo / "make.py")), workdir.env)
    with contextlib.chdir(repo):
        found = measure.in_turns(_subjects(workdir, repo, source), measure.rounds(5), 1)
    figures = {name: by_what["copy"] for name, by_what in found.items()}
    ours, *peers = figures
    rows = [Row(ours, measure.spread(figures[ours]), peers[0], measure.ratio(figures[ours], figures[peers[0]]), limit=LIMIT)]
    rows += [Row(name, measure.spread(figures[name])) for name in peers]
    rows.append(Row(ours, measure.spread(figures[ours]), peers[1], measure.ratio(figures[ours], figures[peers[1]])))
    for name in ("undo", "redo"):
        times = found[ours][name]
        rows.append(Row(f"agent-dev {name}", measure.spread(times), ours, measure.ratio(times, figures[ours]), 1.0))
    return (
        Section(
            TITLE,
            f"{_COUNT:,} new files of 1.8 KB in 30 directories, made by an agent, into a repository on the same disk. "
            "A merge ends when everything is on the disk. `cp -a` does not wait for that; `cp -a, sync -f` does.",
            tuple(rows),
            (measure.fastest(figures, peers[0]),),
        ),
    )


def _subjects(workdir: WorkingDirectory, repo: Path, source: Path) -> list[Subject]:
    copy = ("/usr/bin/cp", "-a", str(source / "new"), str(repo / "new"))
    durable = ("/bin/sh", "-c", f"{' '.join(copy)} && sync -f {repo}")
    return [
        Subject("agent-dev merge --all", lambda: _merged(workdir, repo)),
        Subject("cp -a", lambda: _copied(copy, workdir, repo)),
        Subject("cp -a, sync -f", lambda: _copied(durable, workdir, repo)),
    ]


def _merged(workdir: WorkingDirectory, repo: Path) -> dict[str, float]:
    """Time one merge, its undo and its redo, without the run before and the clean-up after."""
    process.elapsed_time((workdir.program, "--no-merge", "--name", "bench", "--", PYTHON, "make.py"), workdir.env)
    took = {}
    for name, arguments in (("copy", ("merge", "bench", "--all")), ("undo", ("undo",)), ("redo", ("redo",))):
        process.elapsed_time(("/usr/bin/sync", "-f", str(repo)), workdir.env)
        took[name] = process.elapsed_time((workdir.program, *arguments), workdir.env)
        _expect(repo, 0 if name == "undo" else _COUNT, arguments)
    remove(repo / "new")
    return took


def _copied(argv: tuple[str, ...], workdir: WorkingDirectory, repo: Path) -> dict[str, float]:
    return _timed_from_rest(argv, workdir, repo)


def _timed_from_rest(argv: tuple[str, ...], workdir: WorkingDirectory, repo: Path) -> dict[str, float]:
    """Time a command that creates `new` in the repository, after pending writes have completed; then remove `new` again."""
    process.elapsed_time(("/usr/bin/sync", "-f", str(repo)), workdir.env)
    took = process.elapsed_time(argv, workdir.env)
    _expect(repo, _COUNT, argv)
    remove(repo / "new")
    return {"copy": took}


def _expect(repo: Path, count: int, argv: tuple[str, ...]) -> None:
    created = sum(1 for path in (repo / "new").rglob("*.txt"))
    if created != count:
        raise process.ProgramFailed(f"{created} files instead of {count} were created by: {' '.join(argv)}")
