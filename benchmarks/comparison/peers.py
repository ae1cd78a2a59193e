"""The review compared with lazygit: the same changes, in a session and in a work tree, on a real pty."""

import fcntl
import os
import pty
import shutil
import struct
import termios
import time
from pathlib import Path

from benchmarks import measure, process, screen
from benchmarks.measure import Figures, Row, Section
from benchmarks.process import PYTHON
from benchmarks.working_directory import WorkingDirectory

TITLE = "Compared with lazygit"
_FILES = measure.size(int(os.environ.get("AGENT_DEV_BENCHMARK_PEERS", "100000")), 200)
_RENAMED = 100  # one file in this many
_STATUS_LIMIT = 3000  # ms for 30,000 changes
_KEYS = 60
_MAKE = f"""
import os
for n in range({_FILES}):
    folder = f"src/{{n // 500:03}}"
    if n % 500 == 0:
        os.makedirs(folder, exist_ok=True)
    with open(f"{{folder}}/{{n:06}}.py", "w") as file:
        file.write("".join(f"line {{m}} of file {{n}}\\n" for m in range(20)))
"""
_CHANGE = f"""
import os, sys
count = int(sys.argv[1])
for n in range(count):
    path = f"src/{{n // 500:03}}/{{n:06}}.py"
    if n % {_RENAMED} == 0:
        os.rename(path, path.replace(".py", "_new.py"))
    else:
        with open(path, "a") as file:
            file.write("one more line\\n")
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Open both programs on the same changes, in turns, and press a key; list 30,000 changes."""
    repo = _repository(workdir)
    clone = workdir.folder / "peers-clone"
    process.output(("git", "clone", "-q", str(repo), str(clone)), workdir.env)
    process.output((PYTHON, "-c", _CHANGE, str(_FILES)), workdir.env, cwd=clone)
    _agent(workdir, repo, "all", _FILES)
    programs: dict[str, tuple[tuple[str, ...], Path]] = {"agent-dev merge": ((workdir.program, "merge", "all"), repo)}
    if lazygit := shutil.which("lazygit"):
        programs["lazygit"] = ((lazygit,), clone)
    found: dict[str, Figures] = {name: {what: [] for what in _WHAT} for name in programs}
    for _ in range(measure.size(max(3, measure.rounds(4)), 1)):
        for name, (argv, folder) in programs.items():
            for what, figure in _session(workdir, argv, folder).items():
                found[name][what].append(figure)
    rows = [row for what, label in _WHAT.items() for row in _rows(found, what, label)]
    rows += _status(workdir, repo)
    about = (
        f"A repository of {_FILES:,} files, all changed, one of {_RENAMED} renamed. From exec to the first path on a terminal of "
        "140 by 40: agent-dev compares the session with the repository first, lazygit runs `git status`."
    )
    remarks = () if "lazygit" in programs else ("lazygit is not installed on this machine.",)
    remarks = (*remarks, "gitui was not measured: neither Debian nor PyPI nor npm has a package of it.")
    return (Section(TITLE, about, tuple(rows), remarks),)


_WHAT = {"paint": "from exec to the list", "p95": "a key to its first byte, p95"}


def _rows(found: dict[str, Figures], what: str, label: str) -> list[Row]:
    other = found.get("lazygit", {}).get(what)
    return [
        Row(f"{label}, {name}", measure.spread(figures[what]))
        if name == "lazygit" or other is None
        else Row(f"{label}, {name}", measure.spread(figures[what]), "lazygit", measure.ratio(figures[what], other))
        for name, figures in found.items()
    ]


def _status(workdir: WorkingDirectory, repo: Path) -> list[Row]:
    count = min(_FILES, 30_000)
    _agent(workdir, repo, "part", count)
    times = []
    for _ in range(measure.rounds(4)):
        start = time.perf_counter()
        process.output((workdir.program, "status", "part"), workdir.env, cwd=repo)
        times.append((time.perf_counter() - start) * 1000)
    return [Row(f"`status` of {count:,} changes", measure.spread(times), limit=_STATUS_LIMIT)]


def _repository(workdir: WorkingDirectory) -> Path:
    folder = workdir.folder / "peers"
    folder.mkdir()
    git = ("git", "-C", str(folder), "-c", "user.name=b", "-c", "user.email=b@invalid")
    process.output((*git, "init", "-q"), workdir.env)
    process.output((PYTHON, "-c", _MAKE), workdir.env, cwd=folder)
    process.output((*git, "add", "."), workdir.env)
    process.output((*git, "commit", "-qm", "files"), workdir.env)
    process.output((*git, "repack", "-adq"), workdir.env)
    return folder


def _agent(workdir: WorkingDirectory, repo: Path, name: str, count: int) -> None:
    words = (workdir.program, "--no-merge", "--name", name, "--", PYTHON, "-c", _CHANGE, str(count))
    process.output(words, workdir.env, cwd=repo)


def _session(workdir: WorkingDirectory, argv: tuple[str, ...], folder: Path) -> dict[str, float]:
    """Open a program, wait for the first path, press a key several times, and end it; return milliseconds."""
    pid, fd = pty.fork()
    if not pid:
        try:
            os.chdir(folder)
            os.execve(argv[0], argv, {**workdir.env, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"})
        finally:
            os._exit(127)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    start = time.perf_counter()
    try:
        painted, _ = screen.read_until(fd, b".py", b"")
        screen.wait_until_quiet(fd, 2.0)
        times = sorted(screen.press(fd, b"j") for _ in range(_KEYS))
        os.write(fd, b"q")
    finally:
        os.close(fd)  # a hangup, for a program that asks before it quits
        os.waitpid(pid, 0)
    return {"paint": (painted - start) * 1000, "p95": times[int(len(times) * 0.95)] * 1000}
