"""CONTAINMENT A: the sandbox has its own terminal, and no process inside reaches the user's."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import agent_dev
from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PROGRAM, PYTHON, children, wait_until
from tests.harness.terminal import Shell

SPY = Path(__file__).parents[1] / "support/spy.py"
RAW_PY = f"""
import sys, termios
sys.path.insert(0, {str(Path(agent_dev.__file__).parents[1])!r})
from agent_dev.sandbox.terminal.modes import as_raw
modes = termios.tcgetattr(0)
open(sys.argv[1], "w").write(repr(modes))
termios.tcsetattr(0, termios.TCSANOW, as_raw(modes))
"""
# What a relay process does that the kernel schedules after the shell. Mutations apply to it, too.
RELAY_PY = f"""
import ast, os, sys
sys.path.insert(0, {str(Path(agent_dev.__file__).parents[1])!r})
if os.environ.get("AGENT_DEV_TEST_MUTATION"):
    from tests.containment import mutations
    mutations.apply_mutation(os.environ["AGENT_DEV_TEST_MUTATION"])
from agent_dev.sandbox.terminal.modes import restore_after_shell
restore_after_shell(os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY), ast.literal_eval(open(sys.argv[2]).read()))
"""
OWN = "the sandbox has its own terminal and session; only a relay process outside opens the user's terminal"


class Spy:
    """The command line of the spy program, and its log."""

    def __init__(self, world: Machine, *words: str) -> None:
        script = world.folder / "spy.py"
        shutil.copy(SPY, script)  # an ordinary user may not be able to read the checkout
        self._log = world.program.agent_home / "log"
        inside = f"{world.home}/log"
        self.words = " ".join(("--ro", str(script), "--", PYTHON, "-I", str(script), inside, *words))

    def wait(self, line: str) -> None:
        """Wait until the spy has logged a line."""
        wait_until(lambda: self._log.exists() and f"{line}\n" in self._log.read_text(), f"the spy logged {line!r}")

    def read(self) -> list[str]:
        """Return the input that the spy has read."""
        return [line for line in self._log.read_text().splitlines() if line.startswith("read ")]


def type_five_commands(person: Shell) -> None:
    for number in range(5):
        assert person.run(f"echo typed-$(({number}+10))").strip() == f"typed-{number + 10}"


@row("read the user's keys from a background run without standard streams at the terminal", OWN)
@pytest.mark.parametrize("way", ["--no-merge", "tx"])
def test_a24_a_background_run_without_a_terminal_has_none_inside(world: Machine, person: Shell, way: str) -> None:
    spy = Spy(world)
    person.run(f"{PROGRAM} {way} {spy.words} </dev/null >/dev/null 2>&1 &")
    spy.wait("0 terminals")
    spy.wait("ready")
    type_five_commands(person)
    assert spy.read() == []


@row(
    "read the user's keys from a background run at the terminal: setpgid, ignore SIGTTOU, tcsetpgrp, TIOCSCTTY",
    OWN,
)
@pytest.mark.parametrize("way", ["--no-merge", "tx"])
def test_a25_a_background_run_at_the_terminal_reads_none_of_the_users_keys(world: Machine, person: Shell, way: str) -> None:
    spy, own = Spy(world), person.foreground()
    person.run(f"{PROGRAM} {way} {spy.words} &")
    spy.wait("ready")
    type_five_commands(person)
    assert spy.read() == []
    assert person.foreground() == own


@row("read the user's keys in a hidden child, while the user's shell shows the job as stopped", OWN)
def test_a26_a_background_child_of_a_stopped_job_reads_no_key_until_resumed(world: Machine, person: Shell) -> None:
    spy = Spy(world, "stopped")
    person.send(f"{PROGRAM} --no-merge {spy.words}\r")
    spy.wait("waiting")
    person.keys("ctrl+z")
    assert "Stopped" in person.wait_prompt()
    spy.wait("ready")
    type_five_commands(person)
    assert spy.read() == []
    person.start("fg")
    person.send("now\r")
    wait_until(spy.read, "what is typed to the agent arrives")
    assert "typed" not in "".join(spy.read())


# Open every terminal inside by device and number, and try every ioctl on it.
BREAK = """if True:
    import fcntl, glob, json, os, sys, termios
    ways = ["/dev/tty", "/dev/console", *glob.glob("/dev/pts/[0-9]*"), *glob.glob("/proc/[0-9]*/fd/*")]
    found, opened = set(), []
    for way in ways:
        try:
            fd = os.open(way, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            continue
        if os.isatty(fd):
            opened.append(fd)
            status = os.fstat(fd)
            found.add((status.st_dev, status.st_rdev))
    with open(os.path.expanduser("~/terminals"), "w") as file:
        json.dump(sorted(found), file)
    def tries():
        for fd in opened:
            modes = termios.tcgetattr(fd)
            modes[0] = modes[1] = modes[3] = 0
            yield lambda: termios.tcsetattr(fd, termios.TCSANOW, modes)
            yield lambda: termios.tcsetwinsize(fd, (1, 1))
            for request, word in ((0x5412, b"x"), (0x541c, b"\\2"), (0x5423, bytes(4)), (0x540c, 0), (0x5422, 0), (0x540e, 1)):
                yield lambda: fcntl.ioctl(fd, request, word)
            yield lambda: termios.tcflow(fd, termios.TCIOFF)
            yield lambda: termios.tcflow(fd, termios.TCOOFF)
    for attempt in tries():
        try:
            attempt()
        except (OSError, termios.error):
            continue
"""


@row("suspend, resize, reconfigure or acquire the terminal (TCOOFF, TIOCSWINSZ, tcsetattr, TIOCSCTTY, TIOCNOTTY)", OWN)
def test_a27_terminal_ioctls_affect_only_the_sandboxs_own(world: Machine, person: Shell) -> None:
    script = world.folder / "break.py"
    script.write_text(BREAK)
    before, start = person.stty(), len(person.raw)
    person.run(f"{PROGRAM} --no-merge --ro {script} -- {PYTHON} -I {script}", 60)
    assert person.status == 0, person.raw[start:]
    assert person.stty() == before
    type_five_commands(person)
    own = os.stat(os.readlink(f"/proc/{person.pid}/fd/0"))
    reached = (world.program.agent_home / "terminals").read_text()
    assert "[[" in reached
    assert f"[{own.st_dev}, {own.st_rdev}]" not in reached


LEFT_ON = {
    "the other screen": (r"\033[?1049h", "[?1049l"),
    "the kitty keyboard": (r"\033[>31u\033[>31u", "[<99u"),
    "xterm's keys": (r"\033[>4;2m", "[>4m"),
    "insertion": (r"\033[4h", "[4l"),
    "the origin": (r"\033[?6h", "[!p"),
    "margins at the sides": (r"\033[?69h\033[5;10s", "[?69l"),
    "reverse video": (r"\033[?5h", "[?5l"),
    "no repeating": (r"\033[?8l", "[?8h"),
    "a synchronized update": (r"\033[?2026h", "[?2026l"),
    "reports of the size": (r"\033[?2048h", "[?2048l"),
    "the colours": (r"\033]4;1;#000000\033\\", "]104"),
    "the background": (r"\033]11;#000000\033\\", "]111"),
    "the title": (r"\033]0;mine\033\\", "[23;0t"),
    "the shape of the cursor": (r"\033[5 q", "[0 q"),
    "a link": (r"\033]8;;http://a/\033\\", "]8;;"),
    "letters that are not UTF-8": (r"\033%%@", "%G"),
    "VT52": (r"\033[?2l", "<"),
    "a string without an end": (r"\033]0;mine", "\\"),
    "the printer": (r"\033[5i", "[4i"),
}
ALL = "".join(on for on, _ in LEFT_ON.values())


def missing(written: bytes) -> list[str]:
    return [name for name, (_, off) in LEFT_ON.items() if b"\x1b" + off.encode() not in written]


@row("leave title, colours, keyboard protocol, screen, margins or modes changed at a normal exit", "all of them are reset")
def test_a28_the_terminal_is_restored_after_the_agent_has_exited(person: Shell) -> None:
    start = len(person.raw)
    person.run(f"stty iutf8; {PROGRAM} --no-merge -- bash -c 'printf \"{ALL}left-$((1+1))\"'", 60)
    after = person.raw[person.raw.index(b"left-2", start) :]
    assert missing(after) == []


@row(
    "leave title, colours, keyboard protocol, screen, margins or modes changed when stopped",
    "all of them are reset, and the user's modes are restored",
)
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a29_the_terminal_is_restored_when_the_agent_stops(person: Shell, shell: str) -> None:
    person.run("stty iutf8")
    if shell == "dash":  # unlike bash, it leaves the modes as it finds them
        begun = len(person.raw)
        person.send(f"PS1='{person.PROMPT[:2]}''{person.PROMPT[2:]}' dash -i\r")
        person.wait_raw(person.PROMPT.encode(), 60, begun)
    before, start = person.stty(), len(person.raw)
    person.send(f"{PROGRAM} --no-merge -- bash -c 'printf \"{ALL}left-$((1+1))\"; stty raw; kill -STOP $$'\r")
    stopped = person.wait_raw(b"Stopped", 60, person.wait_raw(b"left-2", 60, start))
    person.wait_raw(person.PROMPT.encode(), 60, stopped)
    assert missing(person.raw[person.raw.index(b"left-2", start) :]) == []
    assert person.stty() == before


@row(
    "leave title, colours, keyboard protocol, screen, margins or modes changed when the launcher is killed (SIGKILL)",
    "the relay process outlives the launcher for a moment and resets the terminal",
)
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a30_the_terminal_is_restored_after_the_launcher_was_killed(world: Machine, person: Shell, shell: str) -> None:
    person.run("stty iutf8")
    before, start = person.stty(), len(person.raw)
    script = world.folder / "run.sh"
    script.write_text(f"{PROGRAM} --no-merge -- bash -c 'printf \"{ALL}left-$((1+1))\"; exec sleep 600'\n")
    person.send(f"{'.' if shell == 'bash' else shell} {script}\r")
    person.wait_raw(b"left-2", 60, start)
    launcher = next(pid for pid in descendants(person.pid) if str(PROGRAM) in words(pid)[:2])
    os.kill(launcher, signal.SIGKILL)
    person.wait_prompt(60)
    person.wait_raw(b"\x1b[23;0t", 60, start)
    assert missing(person.raw[person.raw.index(b"left-2", start) :]) == []
    wait_until(lambda: person.stty() == before, "the modes of the terminal are restored")  # after the escape sequences
    type_five_commands(person)


@row(
    "leave the terminal raw for a shell that takes it back before the relay process is scheduled, after a SIGKILL in a script",
    "the relay process restores the modes at the shell's prompt and for its next command",
)
def test_a31_the_terminal_is_restored_although_the_shell_was_quicker(world: Machine, person: Shell) -> None:
    before, terminal = person.stty(), person.run("tty").strip()
    script = world.folder / "raw.py"
    script.write_text(RAW_PY)
    saved = world.folder / "modes"
    assert person.run(f"{PYTHON} {script} {saved}") == ""
    assert " -opost" in person.stty().replace("\n", " ")  # the shell has saved the raw modes as the user's
    with subprocess.Popen((sys.executable, "-c", RELAY_PY, terminal, saved)) as relay:
        try:
            wait_until(lambda: person.stty() == before, "the modes at the prompt are restored")
            person.run("sleep 0.2")  # the modes that the shell sets for commands are restored in this time
            assert relay.wait(20) == 0
        finally:
            relay.kill()
    type_five_commands(person)
    assert person.run("stty -a | grep -c -e '-opost' -e '-icanon' -e '-isig'").strip() == "0"
    assert person.stty() == before


CLIPBOARD = r"\033]52;c;?\a \033]052;p;?\033\\\\ \033]52;c;aGk=\a"  # two requests for its content, and new content


@row(
    "read the clipboard by OSC 52, whose answer the terminal types, or replace it where `clipboard: false`",
    "the relay process removes the request, and the new content unless it is allowed",
)
def test_a32_the_clipboard_is_not_read_and_is_written_only_if_allowed(world: Machine, person: Shell) -> None:
    config = world.folder / "config.yaml"
    config.write_text("clipboard: false\n")
    for number, (option, copies) in enumerate((("", 1), (f"--config {config}", 0))):
        start = len(person.raw)
        person.run(f"{PROGRAM} --no-merge {option} -- printf '{CLIPBOARD} done-{number}'")
        person.wait_raw(b"done-%d" % number, 60, start)
        shown = bytes(person.raw[start:]).partition(b"\x1b[22;0t")[2]  # after the echo of the command
        assert shown.count(b"]52;c;aGk=") == copies
        assert b";?" not in shown


def words(pid: int) -> list[str]:
    """Return the arguments of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process, nearest first."""
    found = children(pid)
    return [*found, *(below for child in found for below in descendants(child))]
