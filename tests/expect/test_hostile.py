"""Scan all bytes that the terminal gets in a review of an agent whose names, contents, commits and commands are all hostile.

Only sequences that the program also sends in the same review of a harmless session are allowed.
"""

from pathlib import Path

import pytest

from tests.expect.test_person import session
from tests.harness.agents import stream
from tests.harness.program import AgentDev

HARMLESS = [b"a", b"bb", b"c-c", b"d.d", b"e", b"f", b"g", b"h", b"i", b"j", b"k"]
HOSTILE = [
    b"\x1b]0;owned\x07",
    b"\x1b[5;7;35mblink\x1b[2J\x1b[6n",
    b"a\rb\nc\x08d",
    "\x9b35mcsi".encode(),
    b"\x9b35mraw",
    "\u202etxt.exe".encode(),
    "zero\u200b\u200dwidth\ufeff".encode(),
    b"caf\xe9\xff",
    ("e" + "\u0301" * 60).encode(),
    b"\x1b]52;c;aGVsbG8=\x07",
    b"\x1b]8;;http:evil\x1b\\x\x1bP1$r\x1b\\\x1bc",
]
AGENT = """
import os, subprocess, sys
names = [bytes.fromhex(word) for word in sys.argv[1:]]
git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
for number, name in enumerate(names):
    with open(b"%02d" % number + name, "wb") as file:
        file.write(b"same\\n" + name + b"\\n" + name * 40)
    os.symlink(b"../" + name, b"link-%02d" % number)
with open("mine", "wb") as file:
    file.write(b"one\\n" + names[1] + b"\\nthree\\n")
subprocess.run([*git, "add", "-A"], check=True)
for name in names[:4]:
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", b"subject " + name + b"\\n\\nbody " + name,
                    "--author", b"A" + name.replace(b"\\n", b"") + b" <a@a>"], check=True)
with open("mine", "ab") as file:
    file.write(names[0])
"""
STORY = (
    *("n", "enter", "end", "escape") * 6,
    *("enter", "s", "z", "w", "W", "escape", "t", "end", "home"),
    *("2", "down", "down", "space", "c", "escape", "3", "down", "4", "1"),
    *("question_mark", "escape", "A", "c", "end", "escape"),
)
NAMED = {"question_mark": "?"}


def played(agent_dev: AgentDev, names: list[bytes], size: tuple[int, int]) -> bytes:
    """Let an agent work with these names, show everything on the screen, and return all bytes that the terminal got."""
    yours = agent_dev.repo / "mine"
    yours.write_bytes(b"one\ntwo\nthree\n")
    words = ["/usr/bin/python3", "-c", AGENT, *(name.hex() for name in names)]
    assert agent_dev("--no-merge", "--", *words).returncode == 0
    yours.write_bytes(b"one\nzwei\nthree\n")
    with session(agent_dev, "merge", rows=size[1], cols=size[0]) as terminal:
        terminal.wait_for("c apply")
        terminal.wait_quiet()
        for key in STORY:
            terminal.keys(NAMED.get(key, key))
            # A key that is read together with escape would count as Alt, and on a busy machine the screen reads late.
            terminal.wait_read()
            terminal.wait_quiet(0.3 if key == "escape" else 0.06)
        terminal.keys("/")
        terminal.wait_for("search: ")
        terminal.send("same\r")
        terminal.wait_quiet()
        terminal.keys("q")
        terminal.wait_for("Quit without applying?")
        terminal.keys("y")
        terminal.wait_exit()
        return terminal.raw


@pytest.mark.parametrize("size", [(60, 15), (120, 40)])
@pytest.mark.slow
def test_a_hostile_session_gives_the_output_stream_of_a_harmless_one(
    agent_dev: AgentDev, repo: Path, size: tuple[int, int]
) -> None:
    harmless = played(agent_dev, HARMLESS, size)
    assert agent_dev("discard").returncode == 0
    hostile = played(agent_dev, HOSTILE, size)

    assert b"owned" in hostile
    assert stream.sequence_kinds(hostile) <= stream.sequence_kinds(harmless)
    assert stream.colours(hostile) <= stream.colours(harmless)
    assert b"5" not in stream.colours(hostile)
    assert not stream.invisible_characters(hostile)


COLOURED = ("diff", "status", "sessions", "log")
ERASE = b"\x1b[K"  # of the progress line, on a busy machine
OWN_COLOURS = {b"", b"1", b"2", b"31", b"32", b"33", b"35", b"36"}


@pytest.mark.parametrize(
    "words", [("status",), ("diff",), ("commits",), ("merge", "--all", "--dry-run"), ("log",), ("sessions",)]
)
def test_printing_verbs_send_no_escape_sequences_but_their_own_colours(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    script = ["/usr/bin/python3", "-c", AGENT, *(name.hex() for name in HOSTILE)]
    assert agent_dev("--no-merge", "--", *script).returncode == 0
    with session(agent_dev, *words, rows=40, cols=200) as terminal:
        terminal.wait_exit()
        assert len(terminal.raw) > 0
        own = {b"m", ERASE} if words[0] in COLOURED else {ERASE}
        assert stream.sequence_kinds(terminal.raw) <= own
        assert stream.colours(terminal.raw) <= OWN_COLOURS
        assert not stream.invisible_characters(terminal.raw) - {"\t"}
