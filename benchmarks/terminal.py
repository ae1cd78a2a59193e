"""The cost of the relay between the user's terminal and the sandbox's: a key, much output, resizes, and a start."""

import os
import pty
import select
import shlex
import shutil
import signal
import statistics
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from benchmarks import measure, process
from benchmarks.measure import Figures, Row, Section, Spread, Subject
from benchmarks.process import ProgramFailed
from benchmarks.working_directory import WorkingDirectory, repository

TITLE = "At a terminal"
_BATCHES, _KEYS, _RESIZES = 10, 100, 100
_MUCH = 30_000_000  # bytes
_PATIENCE = 60.0  # seconds
_REST = 0.5  # seconds after a start, so that the first checkpoint is not measured
_ECHO = "stty raw -echo; printf READY; exec cat"
_YES = f"stty raw -echo; printf READY; head -c 1 >/dev/null; yes | head -c {_MUCH}"
_IN_TMUX = 5_000_000  # bytes: tmux interprets each of them
# Runs each command in turns, and writes its name and how many ms it took to a file.
_TURNS = """
import subprocess, sys, time
rounds, result, *commands = sys.argv[1:]
with open(result + ".new", "w") as file:
    for _ in range(int(rounds)):
        for number, command in enumerate(commands):
            begin = time.perf_counter()
            subprocess.run(command, shell=True, check=True)
            print(number, (time.perf_counter() - begin) * 1000, file=file)
import os
os.rename(result + ".new", result)
"""
_SCRIPT = ("script", "-qe", "/dev/null", "-c")
_SIZES = """
import os, signal
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"%d." % os.get_terminal_size().columns))
os.write(1, b"READY")
while True: signal.pause()
"""


def run(workdir: WorkingDirectory) -> tuple[Section, ...]:
    """Measure each program directly on a terminal, and as an agent on one."""
    repo = repository(workdir.folder / "terminal", workdir.env, {"file": b"x\n"})
    os.chdir(repo)
    prefixes = {"bare": (), "script": _SCRIPT, "agent-dev": (workdir.program, "--no-merge", "--")}
    keys = _keys_in_turns(prefixes, workdir.env)
    subjects = [_subject(name, prefix, workdir.env) for name, prefix in prefixes.items()]
    found = measure.in_turns(subjects, _rounds(), warm_up=1, in_order=False)
    bare, script, ours = found["bare"], found["script"], found["agent-dev"]
    more = [one - other for one, other in zip(keys["agent-dev"]["p95"], keys["bare"]["p95"], strict=True)]
    rows = (
        *(Row(f"a key and its echo, p50, {name}", measure.spread(figures["p50"])) for name, figures in keys.items()),
        *(Row(f"a key and its echo, p95, {name}", measure.spread(figures["p95"])) for name, figures in keys.items()),
        Row("what agent-dev adds to the p95", Spread(statistics.median(more), min(more), max(more)), limit=1),
        Row("30 MB of output, bare", measure.spread(bare["much"])),
        Row("30 MB of output, script", measure.spread(script["much"]), "bare", measure.ratio(script["much"], bare["much"])),
        Row("30 MB of output, agent-dev", measure.spread(ours["much"]), "bare", measure.ratio(ours["much"], bare["much"]), 1.3),
        Row("30 MB of output, agent-dev", measure.spread(ours["much"]), "script", measure.ratio(ours["much"], script["much"])),
        Row("from exec to a program's first byte, agent-dev", measure.spread(ours["start"])),
        Row(f"{_RESIZES} resizes, each awaited, agent-dev", measure.spread(ours["resizes"])),
    )
    about = (
        "A program on a pty: alone (bare), and behind script(1) and agent-dev, which give it a second pty. Keys are typed at the "
        f"three in turns, in {_BATCHES} batches of {_KEYS}; the rest is measured in {_rounds()} rounds. The reader of the "
        "bare pty discards what it reads; tmux interprets it, as every terminal does, which takes longer than a relay. "
        "Under load, a relay waits for a processor like any program. script, a C program, shows the kernel's share: a second pty "
        "doubles the kernel's work (docs/decisions/0030-pty-relay.md)."
    )
    return (Section(TITLE, about, (*rows, *_in_tmux(workdir))),)


def _in_tmux(workdir: WorkingDirectory) -> tuple[Row, ...]:
    """Measure much output in a terminal that people use: it interprets what it reads, unlike the reader of the bare pty."""
    if not shutil.which("tmux"):
        return ()
    output, result = f"yes | head -c {_IN_TMUX}", workdir.folder / "in-tmux"
    run = shlex.join((workdir.program, "--no-merge", "--", "sh", "-c", output))
    command = ("python3", "-I", "-c", _TURNS, str(_rounds()), str(result), output, run)
    tmux = ("tmux", "-S", str(workdir.folder / "tmux"), "-f", "/dev/null")
    process.output((*tmux, "new-session", "-d", "-x", "80", "-y", "24", shlex.join(command)), workdir.env)
    try:
        end = time.monotonic() + _PATIENCE * _rounds()
        while not result.exists():
            if time.monotonic() > end:
                raise ProgramFailed("no result of tmux")
            time.sleep(0.1)
    finally:
        with suppress(ProgramFailed):  # it has exited with its only program
            process.output((*tmux, "kill-server"), workdir.env)
    rows = [line.split() for line in result.read_text().splitlines()]
    bare, ours = ([float(time) for number, time in rows if int(number) == wanted] for wanted in (0, 1))
    return (
        Row("5 MB of output in tmux, bare", measure.spread(bare)),
        Row("5 MB of output in tmux, agent-dev", measure.spread(ours), "bare", measure.ratio(ours, bare), 1.3),
    )


def _rounds() -> int:
    return measure.rounds(12)


def _subject(name: str, prefix: tuple[str, ...], env: dict[str, str]) -> Subject:
    return Subject(name, lambda: {**_much(prefix, env), "resizes": _resizes(prefix, env)})


def _command_line(prefix: tuple[str, ...], command: tuple[str, ...]) -> tuple[str, ...]:
    return (*prefix, shlex.join(command)) if prefix == _SCRIPT else (*prefix, *command)


def _keys_in_turns(prefixes: dict[str, tuple[str, ...]], env: dict[str, str]) -> dict[str, Figures]:
    """Type the same key at each terminal in turns, under the same load; return medians and p95 of batches."""
    found: dict[str, Figures] = {name: {"p50": [], "p95": []} for name in prefixes}
    with ExitStack() as stack:
        terminals = {
            name: stack.enter_context(_program(_command_line(prefix, ("sh", "-c", _ECHO)), env))
            for name, prefix in prefixes.items()
        }
        time.sleep(_REST)
        for _ in range(_BATCHES):
            turns = [{name: _key(fd) for name, fd in terminals.items()} for _ in range(_KEYS)]
            for name, figures in found.items():
                times = [turn[name] for turn in turns]
                figures["p50"].append(statistics.median(times))
                figures["p95"].append(statistics.quantiles(times, n=20)[-1])
    return found


def _key(fd: int) -> float:
    time.sleep(0.002)  # a person types more slowly; both sides sleep before each key
    before = time.perf_counter()
    os.write(fd, b"k")
    _read_until(fd, b"k")
    return (time.perf_counter() - before) * 1000


def _much(prefix: tuple[str, ...], env: dict[str, str]) -> dict[str, float]:
    begin = time.perf_counter()
    with _program(_command_line(prefix, ("sh", "-c", _YES)), env) as fd:
        start = (time.perf_counter() - begin) * 1000
        time.sleep(_REST)
        begin, left = time.perf_counter(), _MUCH
        os.write(fd, b"k")
        while left > 0:
            left -= len(os.read(fd, 1 << 16))
        return {"start": start, "much": (time.perf_counter() - begin) * 1000}


def _resizes(prefix: tuple[str, ...], env: dict[str, str]) -> float:
    with _program(_command_line(prefix, ("/usr/bin/python3", "-I", "-c", _SIZES)), env) as fd:
        begin = time.perf_counter()
        for number in range(_RESIZES):
            termios.tcsetwinsize(fd, (24, 100 + number))
            _read_until(fd, b"%d." % (100 + number))
        return (time.perf_counter() - begin) * 1000


@contextmanager
def _program(argv: tuple[str, ...], env: dict[str, str]) -> Iterator[int]:
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.execvpe(argv[0], argv, {**env, "TERM": "xterm"})
        finally:
            os._exit(127)
    try:
        _read_until(fd, b"READY")
        yield fd
    finally:
        os.kill(pid, signal.SIGTERM)  # script does not exit when its terminal is closed
        os.close(fd)
        os.waitpid(pid, 0)


def _read_until(fd: int, wanted: bytes) -> None:
    got, end = b"", time.monotonic() + _PATIENCE
    while wanted not in got:
        if not select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
            raise ProgramFailed(f"{wanted!r} expected, but got {got!r}")
        got += os.read(fd, 1 << 16)
