"""The review screen on a real pty: first paint, latency of keys, memory, leaving."""

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks import measure
from benchmarks.measure import Row, Section
from benchmarks.working_directory import WorkingDirectory

TITLE = "The review screen"
_ROWS, _COLUMNS = 40, 140
_QUIET = 0.05  # seconds without output after which a key's drawing counts as complete
_PROGRAM = """
import sys, time
from agent_dev.fs.entry import Entry, FileType, Key
from dataclasses import replace
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet
from agent_dev.overlay.fold_renames import fold_renames
from agent_dev.overlay.renames import detect_renames
from tui.app import run_review
from tests.harness.sample_session import Sample
from tui.model.totals import LineCount
count, lines = int(sys.argv[1]), int(sys.argv[2])
FILE = Entry(FileType.FILE, size=10)
BEFORE = b"".join(b"line %d of a file\\n" % n for n in range(lines))
AFTER = b"".join(b"line %d of a file\\n" % n if n % 5 else b"line %d of another\\n" % n for n in range(lines))
def changes():
    for n in range(count):
        key = Key(0, b"src/%03d/%05d.py" % (n // 500, n))
        if n % 100:
            yield Change(key, ChangeKind.EDITED, FILE, FILE)
        else:
            yield Change(key, ChangeKind.DELETED, FILE, None)
            yield Change(Key(0, key.path.replace(b".py", b"_new.py")), ChangeKind.ADDED, None, FILE)
class Many(Sample):
    tabs = {}
    def __init__(self):
        self.changes = ChangeSet(tuple(changes()))
        self.merges = []
    def detect_renames(self):
        texts = [{}, {}]
        for change in self.changes.changes:
            if change.kind is not ChangeKind.EDITED:
                content = b"file of %s" % change.key.name.replace(b"_new", b"")
                texts[change.kind is ChangeKind.ADDED][change.key] = content
        found = detect_renames(*texts, 0.5)
        self.changes = fold_renames(replace(self.changes, renames={one.new: one.old for one in found}))
    def read_content(self, key): return BEFORE, AFTER
    def line_merge(self, key): return None
    def count_lines(self, keys): return {key: LineCount(1, 1, 1) for key in keys}
source = Many()
sys.stdout.write("READY\\n"); sys.stdout.flush(); sys.stdin.readline()
source.detect_renames()
run_review(source)
status = open("/proc/self/status").read()
sys.stdout.write("PEAK " + status.split("VmHWM:")[1].split()[0] + " END\\n"); sys.stdout.flush()
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Open the screen on few and many changes, press keys, leave."""
    count = measure.rounds(6)
    few = [_session(workdir, 10, 20, ()) for _ in range(count)]
    many = [_session(workdir, 100_000, 20, _LIST) for _ in range(max(5, count // 2))]
    long = [_session(workdir, 10, 100_000, _DIFF) for _ in range(max(5, count // 2))]
    rows = [
        Row("first paint, 10 changes", measure.spread([one["paint"] for one in few]), limit=150),
        Row("first paint, 100,000 changes", measure.spread([one["paint"] for one in many]), limit=800),
        Row("key to first byte, 100,000 changes, p95", measure.spread([one["p95"] for one in many]), limit=12),
        Row("key to first byte, a diff of 100,000 lines, p95", measure.spread([one["p95"] for one in long]), limit=12),
        Row("leaving, until the terminal is as before", measure.spread([one["leave"] for one in few]), limit=50),
    ]
    peak = max(one["peak"] for one in many) / 1024
    peak_long = max(one["peak"] for one in long) / 1024
    about = (
        f"A real pty of {_COLUMNS} by {_ROWS}; the changes are in memory, so this measures the screen alone. "
        "First paint is from the call to the last byte of the first frame: it includes importing Textual and detecting renames."
    )
    remark = f"Peak memory: {peak:.0f} MiB with 100,000 changes, {peak_long:.0f} MiB with a diff of 100,000 lines (at most 150)."
    return (Section(TITLE, about, tuple(rows), (remark,)),)


_LIST = (*[b"j"] * 60, *[b"\x1b[6~"] * 20, *[b" "] * 20, *[b"k"] * 40, *[b"n"] * 40, b"G", b"g")
_DIFF = (b"\r", *[b"j"] * 60, *[b"\x1b[6~"] * 20, *[b"]"] * 40, *[b" "] * 20, *[b"k"] * 40, b"G", b"g")


def _session(workdir: WorkingDirectory, changes: int, lines: int, keys: Sequence[bytes]) -> dict[str, float]:
    """Open the screen, wait for quiet, press keys one by one, and leave; return milliseconds and the peak memory in KiB."""
    with _program(workdir, changes, lines) as fd:
        _until(fd, b"READY")
        start = time.perf_counter()
        os.write(fd, b"\n")
        painted = _until(fd, b"apply") - start
        wait_until_quiet(fd, 1.0)
        times = [press(fd, key) for key in keys]
        os.write(fd, b"X")  # with an empty selection it leaves immediately
        wait_until_quiet(fd, 0.3)
        start = time.perf_counter()
        os.write(fd, b"q")
        left, seen = read_until(fd, b"\x1b[?1049l", b"")
        while b"END" not in seen:
            seen += _read(fd, 30)
        peak = float(seen.split(b"PEAK ")[1].split()[0])
    times.sort()
    p95 = times[int(len(times) * 0.95)] * 1000 if times else 0.0
    return {"paint": painted * 1000, "p95": p95, "leave": (left - start) * 1000, "peak": peak}


@contextmanager
def _program(workdir: WorkingDirectory, changes: int, lines: int) -> Iterator[int]:
    pid, fd = pty.fork()
    if not pid:
        try:
            environment = {**workdir.env, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"}
            os.execve(workdir.python, [workdir.python, "-c", _PROGRAM, str(changes), str(lines)], environment)
        finally:
            os._exit(127)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    try:
        yield fd
    finally:
        os.close(fd)
        os.waitpid(pid, 0)


def _read(fd: int, seconds: float) -> bytes:
    if not select.select([fd], [], [], seconds)[0]:
        raise TimeoutError("the screen did not answer")
    return os.read(fd, 65536)


def _until(fd: int, wanted: bytes) -> float:
    return read_until(fd, wanted, b"")[0]


def read_until(fd: int, wanted: bytes, seen: bytes) -> tuple[float, bytes]:
    """Read until some bytes came; return the time and all that was read, `seen` included."""
    while wanted not in seen:
        seen += _read(fd, 60)
    return time.perf_counter(), seen


def wait_until_quiet(fd: int, seconds: float) -> None:
    """Read until nothing comes for so many seconds."""
    while select.select([fd], [], [], seconds)[0]:
        os.read(fd, 65536)


def press(fd: int, key: bytes) -> float:
    """Press a key; return the seconds until the first byte of its output, and wait for the rest."""
    start = time.perf_counter()
    os.write(fd, key)
    _read(fd, 30)
    took = time.perf_counter() - start
    wait_until_quiet(fd, _QUIET)
    return took
