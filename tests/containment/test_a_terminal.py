"""CONTAINMENT A: the terminal, and what the user is shown."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.containment.rows import row
from tests.containment.world import World
from tests.harness.program import PROGRAM
from tests.harness.terminal import Shell

REQUESTS = {
    "TIOCSTI": 0x5412,
    "TIOCLINUX": 0x541C,
    "TIOCSETD": 0x5423,
    "TIOCEXCL": 0x540C,
    "KDSETMODE": 0x4B3A,
    "KDSKBENT": 0x4B47,
    "PIO_FONTX": 0x4B6C,
    "VT_OPENQRY": 0x5600,
    "VT_ACTIVATE": 0x5606,
    "VT_LOCKSWITCH": 0x560B,
}
GARBAGE = [0, 1, 0xDEADBEEF, 0xFFFFFFFF]
WAYS = ["stdin", "/dev/tty", "/proc/self/fd/0", "/proc/self/fd/2"]


@dataclass(frozen=True)
class Evening:
    """A person's shell before, during and after a hostile agent."""

    tried: dict[str, Any]
    before: str
    after: str
    waiting: str
    opened: str

    def errors(self, *, way: str = "", request: str = "", upper: int | None = None) -> set[str]:
        """Return what the attempts of that kind came to."""
        found: dict[str, str] = self.tried["ioctls"]
        rows = {tuple(case.split()): error for case, error in found.items()}
        return {
            error
            for (its_way, its_request, its_upper), error in rows.items()
            if its_way.startswith(way) and its_request.startswith(request) and upper in (None, int(its_upper, 16))
        }


@pytest.fixture(scope="module")
def evening(shared: World) -> Evening:
    """One run with everything at a real terminal."""
    target = {"sections": ["terminal"], "requests": REQUESTS, "upper": GARBAGE, "ways": WAYS, "into": "~/found.json"}
    script = shared.folder / "run.sh"
    words = " ".join(f"'{word}'" for word in shared.words(target))
    script.write_text(f"{PROGRAM} {words}\n")
    with Shell(env=shared.program.terminal_environment(), cwd=shared.repo, rows=24, cols=80) as person:
        before = person.stty()
        person.run(f"sh {script}", timeout=60)
        assert person.status == 0, person.text()
        after = person.stty()
        waiting = person.run("read -t 0; echo waiting=$?").strip()
        opened = person.run("echo open >/dev/tty").strip()
    tried = json.loads((shared.program.agent_home / "found.json").read_text())
    return Evening(tried, before, after, waiting, opened)


@row("type into the user's shell (TIOCSTI)", "the filter refuses it: EPERM; resizing still works")
def test_a01_typing_into_the_terminal_is_refused_and_resizing_works(evening: Evening) -> None:
    assert evening.errors(request="TIOCSTI", upper=0) == {"EPERM"}
    assert evening.tried["own_terminal"] == "EPERM"
    assert evening.waiting == "waiting=1"
    assert evening.tried["size"] == [[80, 24], [97, 31]]


@row("the same with garbage in the upper half of the request", "the filter looks at the low 32 bits: EPERM")
def test_a02_garbage_in_the_upper_half_of_a_request_opens_nothing(evening: Evening) -> None:
    assert [evening.errors(upper=upper) for upper in GARBAGE] == [{"EPERM"}] * len(GARBAGE)


@row("paste on a Linux console (TIOCLINUX)", "the filter refuses it: EPERM")
def test_a03_pasting_on_a_console_is_refused(evening: Evening) -> None:
    assert evening.errors(request="TIOCLINUX") == {"EPERM"}


@row("reach the real terminal by `/dev/tty` or `/proc/self/fd`", "it is the terminal; what injects is refused there too")
def test_a04_the_terminal_opened_anew_is_no_way_around(evening: Evening) -> None:
    assert {way: evening.errors(way=way) for way in WAYS} == {way: {"EPERM"} for way in WAYS}


@row("kill or lock the terminal (TIOCSETD, TIOCEXCL), switch consoles", "the filter refuses it: EPERM")
def test_a22_the_terminal_is_neither_killed_nor_locked(evening: Evening) -> None:
    others = [name for name in REQUESTS if name not in ("TIOCSTI", "TIOCLINUX")]
    assert {name: evening.errors(request=name) for name in others} == {name: {"EPERM"} for name in others}
    assert evening.opened == "open"
    assert "line = 0" in evening.after
