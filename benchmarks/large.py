"""Start-up in a repository as large as real ones: 50,000 files, 1,000 commits, 3,000 branches."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure, process
from benchmarks.measure import Row, Section, Subject
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Start-up in a large repository"
TARGET = 6.0  # times plain bubblewrap, as in a small one
FILES, COMMITS, BRANCHES = measure.size((50_000, 1_000, 3_000), (50, 2, 3))
_PLAIN = ("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
_REST = 0.05  # seconds: a child's remaining work must not slow down the next measurement


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure starts with the last bubblewrap."""
    bwrap = workdir.bwraps[-1]
    env = workdir.env_with(bwrap)
    subjects = [_subject("bwrap", (bwrap.path, *_PLAIN, "/usr/bin/true"), env, workdir.folder)]
    for name, folder in _repositories(workdir):
        subjects.append(_subject(f"agent-dev -- true: {name}", (workdir.program, "--", "true"), env, folder))
    found = measure.in_turns(subjects, measure.rounds(3))
    figures = {name: by_what["start"] for name, by_what in found.items()}
    rows = tuple(
        Row(name, measure.spread(times))
        if name == "bwrap"
        else Row(name, measure.spread(times), "bwrap", measure.ratio(times, figures["bwrap"]), TARGET)
        for name, times in figures.items()
    )
    about = f"From exec to exit. The large one has {FILES:,} files and {COMMITS:,} commits, made with `git fast-import`."
    return (Section(f"{TITLE}, bubblewrap {bwrap}", about, rows, (measure.fastest(figures, "bwrap"),)),)


def _repositories(workdir: WorkingDirectory) -> Iterator[tuple[str, Path]]:
    small = {f"src/part{n // 20}/file{n}.py": f"value = {n}\n".encode() * 50 for n in range(200)}
    yield "200 files", repository(workdir.folder / "small", workdir.env, small)
    yield "large", _large(workdir.folder / "large", workdir.env)
    packed = _large(workdir.folder / "packed", workdir.env)
    _branches(packed, workdir.env)
    process.output(("git", "-C", str(packed), "pack-refs", "--all"), workdir.env)
    yield f"large, {BRANCHES:,} branches", packed
    loose = _large(workdir.folder / "loose", workdir.env)
    _branches(loose, workdir.env)
    yield f"large, {BRANCHES:,} branches in a file each", loose


def _large(folder: Path, env: dict[str, str]) -> Path:
    """Create a repository by `git fast-import`: all files in the first commit, a few changed by each later one."""
    process.output(("git", "init", "-q", "-b", "main", str(folder)), env)
    _git_with_input(folder, ("fast-import", "--quiet"), b"".join(_commits()), env)
    process.output(("git", "-C", str(folder), "reset", "-q", "--hard"), env)
    time.sleep(1.1)  # so that the index is newer than its files
    process.output(("git", "-C", str(folder), "update-index", "--refresh", "--force-write-index"), env)
    return folder


def _commits() -> Iterator[bytes]:
    for number in range(COMMITS):
        yield b"commit refs/heads/main\ncommitter Bench <bench@example.invalid> %d +0000\n" % (1_700_000_000 + number)
        yield b"data 6\nc%05d\n" % number
        first = number * 37 % FILES
        for file in range(FILES) if number == 0 else range(first, min(first + 5, FILES)):
            data = b"value = %d\n# %d\n" % (file, number)
            yield b"M 100644 inline src/d%d/p%d/f%d.py\ndata %d\n%b\n" % (file % 50, file // 1000, file, len(data), data)


def _branches(folder: Path, env: dict[str, str]) -> None:
    head = process.output(("git", "-C", str(folder), "rev-parse", "HEAD"), env).strip()
    _git_with_input(
        folder, ("update-ref", "--stdin"), "".join(f"create refs/heads/team/b{n} {head}\n" for n in range(BRANCHES)).encode(), env
    )


def _git_with_input(folder: Path, arguments: tuple[str, ...], data: bytes, env: dict[str, str]) -> None:
    subprocess.run(("git", "-C", str(folder), *arguments), input=data, env=env, check=True)


def _subject(name: str, argv: tuple[str, ...], env: dict[str, str], folder: Path) -> Subject:
    def run_once() -> dict[str, float]:
        time.sleep(_REST)
        with contextlib.chdir(folder):
            return {"start": process.elapsed_time(argv, env)}

    return Subject(name, run_once)
