"""CONTAINMENT A: the user's terminal during and after a run, and the review screen."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PROGRAM
from tests.harness.terminal import REQUESTS, TERMINAL_PATHS, Shell

GARBAGE = [0, 1, 0xDEADBEEF, 0xFFFFFFFF]


@dataclass(frozen=True)
class Evening:
    """A user's shell before, during and after the run of a hostile agent."""

    tried: dict[str, Any]
    before: str
    after: str
    waiting: str
    opened: str

    def errors(self, *, way: str = "", request: str = "", upper: int | None = None) -> set[str]:
        """Return the results of the selected attempts."""
        found: dict[str, str] = self.tried["ioctls"]
        rows = {tuple(case.split()): error for case, error in found.items()}
        return {
            error
            for (its_way, its_request, its_upper), error in rows.items()
            if its_way.startswith(way) and its_request.startswith(request) and upper in (None, int(its_upper, 16))
        }


@pytest.fixture(scope="module")
def evening(shared: Machine) -> Evening:
    """Return the results of one run of the probe at a real terminal."""
    target = {"sections": ["terminal"], "requests": REQUESTS, "upper": GARBAGE, "ways": TERMINAL_PATHS, "into": "~/found.json"}
    script = shared.folder / "run.sh"
    argv = " ".join(f"'{word}'" for word in shared.probe_command(target))
    script.write_text(f"{PROGRAM} {argv}\n")
    with Shell(env=shared.program.terminal_environment(), cwd=shared.repo, rows=24, cols=80) as person:
        before = person.stty()
        person.run(f"sh {script}", timeout=60)
        assert person.status == 0, person.text()
        after = person.stty()
        waiting = person.run("read -t 0; echo waiting=$?").strip()
        opened = person.run("echo open >/dev/tty").strip()
    tried = json.loads((shared.program.agent_home / "found.json").read_text())
    return Evening(tried, before, after, waiting, opened)


@row("type into the user's shell (TIOCSTI)", "the seccomp filter denies it: EPERM; resizing still works")
def test_a01_typing_into_the_terminal_is_refused_and_resizing_works(evening: Evening) -> None:
    assert evening.errors(request="TIOCSTI", upper=0) == {"EPERM"}
    assert evening.tried["own_terminal"] == "EPERM"
    assert evening.waiting == "waiting=1"
    assert evening.tried["size"] == [[80, 24], [97, 31]]


@row("TIOCSTI with other bits set in the upper half of the request", "the filter compares the low 32 bits: EPERM")
def test_a02_upper_bits_of_an_ioctl_request_do_not_bypass_the_filter(evening: Evening) -> None:
    assert [evening.errors(upper=upper) for upper in GARBAGE] == [{"EPERM"}] * len(GARBAGE)


@row("paste on a Linux console (TIOCLINUX)", "the seccomp filter denies it: EPERM")
def test_a03_pasting_on_a_console_is_refused(evening: Evening) -> None:
    assert evening.errors(request="TIOCLINUX") == {"EPERM"}


@row(
    "reach the real terminal by `/dev/tty` or `/proc/self/fd`",
    "both lead to the sandbox's own terminal, where the filter denies injection, too",
)
def test_a04_reopening_the_terminal_does_not_bypass_the_filter(evening: Evening) -> None:
    assert {way: evening.errors(way=way) for way in TERMINAL_PATHS} == {way: {"EPERM"} for way in TERMINAL_PATHS}


@row("hang up or lock the terminal (TIOCSETD, TIOCEXCL), switch consoles", "the seccomp filter denies it: EPERM")
def test_a22_the_terminal_is_neither_killed_nor_locked(evening: Evening) -> None:
    others = [name for name in REQUESTS if name not in ("TIOCSTI", "TIOCLINUX")]
    assert {name: evening.errors(request=name) for name in others} == {name: {"EPERM"} for name in others}
    assert evening.opened == "open"
    assert "line = 0" in evening.after


LEFT_ON = r"\033[?1049h\033[?1002h\033[?1006h\033[?2004h\033[>1u\033[>4;2m\033[?25l\033[?1h\033=\033[?7l"
SWITCHED_OFF = ("[?1049l", "[?1002l", "[?1006l", "[?2004l", "[<99u", "[>4m", "[?25h", "[?1l", ">", "[?7h")


@row(
    "leave the terminal in raw mode, on the alternate screen, or with mouse, paste or keyboard modes on, by being killed",
    "the modes from before the start are restored; everything an agent may have switched on is switched off",
)
def test_a06_a_killed_agent_leaves_the_terminal_unchanged(person: Shell) -> None:
    before, start = person.stty(), len(person.raw)
    person.run(f"{PROGRAM} --no-merge -- bash -c 'stty raw -echo -isig; printf \"{LEFT_ON}left-$((1+1))\"; kill -9 $$'", 60)
    assert person.status == 137
    assert person.stty() == before
    after = person.raw[person.raw.index(b"left-2", start) :]
    assert [code for code in SWITCHED_OFF if b"\x1b" + code.encode() not in after] == []
    assert not person.screen.is_alternate()


@row(
    "stop itself, or exit with its process group in the foreground, so that terminal and launcher hang",
    "the launcher restores the terminal and stops itself, and continues when the agent is continued",
)
def test_a23_an_agent_that_stops_itself_or_leaves_its_group_does_not_hang(person: Shell) -> None:
    person.send(f"{PROGRAM} -- bash -c 'echo new >new; kill -STOP $$; echo went-on'\r")
    assert "Stopped" in person.wait_prompt(60)
    assert person.foreground() == person.pid
    person.start("fg")
    person.wait_for("c apply", 60)  # the screen is open
    person.wait_quiet()
    person.keys("ctrl+z")
    person.wait_prompt(60)
    person.send("fg\r")
    person.wait_for("c apply", 60)
    person.wait_quiet()
    person.keys("q")
    person.wait_prompt(60)
    assert person.status == 0
    lost = "import os, time; os.fork() and os._exit(3); os.setpgid(0, 0); time.sleep(0.1)"
    person.run(f"{PROGRAM} --no-merge -- /usr/bin/python3 -I -c '{lost}'", 60)
    assert person.status == 3
    assert person.run("echo $((40+2))").strip() == "42"
