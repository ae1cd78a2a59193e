"""The cost of `directory_renames`: renames of files, a build, and a directory of many files."""

import contextlib
import os
from pathlib import Path

from benchmarks import measure, process
from benchmarks.commands import _MAKEFILE
from benchmarks.measure import Figures, Row, Section, Subject
from benchmarks.process import PYTHON
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "Renames"
_NEW = int(os.environ.get("AGENT_DEV_BENCHMARK_RENAMES", "2000"))  # files per round
_LOWER, _DIRECTORY, _UNITS = 100, 300, 67  # files; a unit is compiled by three processes, 1,000 in all rounds
_ROUNDS, _WITHIN = 5, 60.0  # seconds
_LOOPS, _BUILDS = 1.3, 1.03  # times the same with `directory_renames: false`
_SOURCE = "int f{0}(int x) {{ return x * {0}; }}\n"
# Output of a script: milliseconds of elapsed time, and of processor time including its children.
_CLOCK = """import os, resource, subprocess, shutil, sys, time
def used():
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)
def measured(work):
    since, before = time.perf_counter(), used()
    work()
    print((time.perf_counter() - since) * 1000, (used() - before) * 1000)
"""
_RENAME_NEW = f"""
os.mkdir("new")
for n in range({_NEW}):
    open(f"new/{{n}}", "x").close()
def work():
    for n in range({_NEW}):
        os.rename(f"new/{{n}}", f"new/to{{n}}")
"""
_RENAME_LOWER = f"""
def work():
    for n in range({_LOWER}):
        os.rename(f"lower/{{n}}", f"lower/to{{n}}")
"""
_BUILD = """
def work():
    subprocess.run(["make", "-s", "-j2"], check=True)
"""
_MOVE = f"""
def work():
    os.rename("many", "moved")
    assert len(os.listdir("moved")) == {_DIRECTORY}
"""
_COPY = """
def work():
    shutil.copytree("many", "moved")
    shutil.rmtree("many")
"""
# A listener in the same sandbox that only answers, to measure the kernel's share of every notified call.
_ANSWERED = """
import ctypes, fcntl, socket, struct
RENAMES = {"x86_64": (82, 264, 316), "aarch64": (38, 276)}[os.uname().machine]
SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
RECEIVE, SEND, FLAGS, SYNC_WAKE_UP, CONTINUE = 0xC0502100, 0xC0182101, 0x40082104, 1, 1
def listened():
    rows = [(0x20, 0, 0, 0)]
    rows += [(0x15, len(RENAMES) - at, 0, number) for at, number in enumerate(RENAMES)]
    rows += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x7FC00000)]
    code = b"".join(struct.pack("=HBBI", *row) for row in rows)
    held = ctypes.create_string_buffer(code)
    words = struct.pack("=H6xQ", len(rows), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)
    fd = libc.syscall(SECCOMP, 1, 8, words)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd
ours, theirs = socket.socketpair()
child = os.fork()
if child == 0:
    fd = listened()
    socket.send_fds(theirs, [b"x"], [fd])
    os.close(fd)
    theirs.recv(1)
    measured(work)
    sys.stdout.flush()
    os._exit(0)
theirs.close()
_, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
with contextlib_suppress():
    fcntl.ioctl(fd, FLAGS, SYNC_WAKE_UP)
ours.send(b"x")
end, empty, heard = os.pidfd_open(child), bytes(80), bytearray(80)
import select
poll = select.poll()
poll.register(fd, select.POLLIN)
while all(event & select.POLLIN for _, event in poll.poll()):
    heard[:] = empty
    with contextlib_suppress():
        fcntl.ioctl(fd, RECEIVE, heard)
        fcntl.ioctl(fd, SEND, struct.pack("=QqiI", int.from_bytes(heard[:8], sys.byteorder), 0, 0, CONTINUE))
os.waitpid(child, 0)
""".replace("contextlib_suppress()", "contextlib.suppress(OSError)").replace("import ctypes", "import contextlib, ctypes", 1)
_MEASURED = "measured(work)\n"


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure with the first bubblewrap; AGENT_DEV_BENCHMARK_RENAMES: the number of new files per round (2,000)."""
    files = {f"u{n}.c": _SOURCE.format(n).encode() for n in range(_UNITS)}
    files |= {f"lower/{n}": b"x" * 100 for n in range(_LOWER)}
    files |= {f"many/{n}": b"x" * 100 for n in range(_DIRECTORY)}
    works = {"new": _RENAME_NEW, "lower": _RENAME_LOWER, "build": _BUILD, "move": _MOVE, "copy": _COPY}
    files |= {f"{name}.py": (_CLOCK + work + _MEASURED).encode() for name, work in works.items()}
    files["answered.py"] = (_CLOCK + _RENAME_NEW + _ANSWERED).encode()
    repo = repository(workdir.folder / "renames", workdir.env, {**files, "Makefile": _MAKEFILE})
    subjects = [
        _subject("off", ("new", "lower", "build", "copy"), repo, workdir),
        _subject("answered", ("answered",), repo, workdir),
        _subject("on", ("new", "lower", "build", "move"), repo, workdir),
    ]
    with contextlib.chdir(repo):
        found = measure.in_turns(subjects, _ROUNDS, 0, in_order=False, within=_WITHIN)
    about = (
        "Within sandboxes without a command policy, a new one for each figure, with `directory_renames` off and on; `answered` "
        "is off, too, but a separate listener answers each rename of the loop and does nothing else. Processor time is "
        "that of the loop or of the build, without the supervisor."
    )
    return (Section(TITLE, about, tuple(_rows(found))),)


def _rows(found: dict[str, Figures]) -> list[Row]:
    off, on, answered = (found[name] for name in ("off", "on", "answered"))
    rows = [
        *_compared(f"{_NEW:,} renames of new files", off["new"], on["new"], _LOOPS),
        _against_off(f"{_NEW:,} renames of new files: answered", answered["answered"], off["new"]),
        *_compared(f"{_NEW:,} renames of new files, processor time", off["new, processor"], on["new, processor"]),
        *_compared(f"{_LOWER} renames of the repository's files", off["lower"], on["lower"], _LOOPS),
        *_compared(f"a build of {3 * _UNITS + 1:,} processes", off["build"], on["build"], _BUILDS),
        *_compared(f"a build of {3 * _UNITS + 1:,} processes, processor time", off["build, processor"], on["build, processor"]),
    ]
    ratio = measure.ratio(on["move"], off["copy"])
    copied = Row(f"a directory of {_DIRECTORY:,} files: copied and removed", measure.spread(off["copy"]))
    return [*rows, copied, Row(f"a directory of {_DIRECTORY:,} files: renamed", measure.spread(on["move"]), "copied", ratio)]


def _compared(label: str, off: list[float], on: list[float], target: float | None = None) -> tuple[Row, Row]:
    return Row(f"{label}: off", measure.spread(off)), _against_off(f"{label}: on", on, off, target)


def _against_off(label: str, figures: list[float], off: list[float], target: float | None = None) -> Row:
    return Row(label, measure.spread(figures), "off", measure.ratio(figures, off), target)


def _subject(name: str, scripts: tuple[str, ...], repo: Path, workdir: WorkingDirectory) -> Subject:
    config = workdir.folder / f"renames-{name}.yaml"
    config.write_text(f'policy: "off"\ndirectory_renames: {str(name == "on").lower()}\n')
    options = ("--config", str(config), "--no-merge", "--", PYTHON, "-I", "-S", "-B")
    env = workdir.env_with(workdir.bwraps[0])

    def run_all() -> dict[str, float]:
        found: dict[str, float] = {}
        for script in scripts:
            took, used = process.output((workdir.program, *options, str(repo / f"{script}.py")), env).split()
            found |= {script: float(took), f"{script}, processor": float(used)}
        return found

    return Subject(name, run_all)
