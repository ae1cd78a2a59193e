"""CONTAINMENT B: the door at which an agent makes transactions of its own session, in the hands of one that is hostile."""

import json

import pytest

from tests.containment.rows import row
from tests.containment.world import World
from tests.harness.program import PYTHON, tree

HOSTILE = r"""
import array, json, os, select, socket, sys
DOOR = "/run/agent-dev/door"
def door():
    line = socket.socket(socket.AF_UNIX); line.connect(DOOR); line.settimeout(30); return line
def said(line):
    heard = b""
    try:
        while not heard.endswith(b"\n") and (piece := line.recv(4096)): heard += piece
    except OSError: pass
    return heard.decode("utf-8", "replace")
def ask(data):
    line = door(); line.sendall(data); return said(line)
found = {}
words = [b"merge", b"run ls", b"exec /bin/sh", b"undo", b"checkpoints", b"resume", b"begin\0", b"begin \x1b]0;x\x07", b"{}"]
words += [b"rollback ../../1", b"rollback 1/../../x", b"rollback /etc/passwd", b"rollback 99", b"commit 1", b"commit"]
words += [b"commit /etc", b"rollback", b"\xff\xfe", b"", b" "]
found["words"] = [ask(word + b"\n") for word in words]
try: found["long"] = ask(b"begin " + b"x" * 100000)
except OSError as error: found["long"] = ""
line = door()  # descriptors sent along
line.sendmsg([b"checkpoint\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/", os.O_RDONLY)] * 20))])
found["with_descriptors"] = said(line)
many = []  # opened, and left open to the end
for _ in range(200):
    one = socket.socket(socket.AF_UNIX); one.connect(DOOR); many.append(one)
line = door(); line.settimeout(1)  # one that never reads
try:
    for _ in range(20000): line.sendall(b"commit\n")
except OSError: pass
line.close()
for _ in range(20): door().sendall(b"beg")  # halves
found["after"] = ask(b"checkpoint still there\n")
json.dump(found, sys.stdout)
"""


def guarded(world: World, *lines: str) -> None:
    folder = world.folder / "config/agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("\n".join(("tx_inside: true", "checkpoint_minutes: 0", *lines)) + "\n")


@pytest.fixture(scope="module")
def found(shared: World) -> dict[str, object]:
    """What came of it when an agent said everything but what the door offers."""
    guarded(shared)
    before = tree(shared.home)
    done = shared.program("--no-merge", "--", PYTHON, "-I", "-c", HOSTILE, timeout=180)
    assert done.returncode == 0, done.stderr
    after = tree(shared.home)
    assert {path: one for path, one in after.items() if not path.startswith("aihome")} == before
    value: dict[str, object] = json.loads(done.stdout)
    return value


@row("say more at the session's door than begin, commit, roll back and checkpoint", "four words, one short line, strictly parsed")
def test_b21_the_door_offers_four_words_and_says_nothing_of_the_host(found: dict[str, object], shared: World) -> None:
    words = found["words"]
    assert isinstance(words, list)
    assert [word for word in words if not word.startswith("no ")] == []
    assert str(shared.folder) not in json.dumps(found)


@row("send descriptors, floods, halves of lines to the door, open it a hundred times", "bounds, and who floods is hung up on")
def test_b22_the_door_answers_after_all_that(found: dict[str, object]) -> None:
    assert (found["long"], str(found["with_descriptors"])[:3], str(found["after"])[:3]) == ("", "ok ", "ok ")


RACE = r"""
import os, shutil, socket, threading
victim = os.environ["VICTIM"]
def ask(word):
    line = socket.socket(socket.AF_UNIX); line.connect("/run/agent-dev/door"); line.sendall(word + b"\n")
    return line.makefile("rb").readline()
def fill():
    shutil.rmtree("made", ignore_errors=True)
    for name in ("made/a", "made/b"):
        try: os.makedirs(name)
        except OSError: pass
        for number in range(40):
            try:
                open(f"{name}/f{number}", "w").write("mine"); os.mkfifo(f"{name}/p{number}"); os.chmod(f"{name}/p{number}", 0o777)
            except OSError: pass
    for number in range(60):
        try: os.makedirs(f"made/a/d{number}")
        except OSError: pass
fill()
over = threading.Event()
def swap():
    turn = 0
    while not over.is_set():
        for name in ("made", "made/a", "made", ".agent-dev-rollback", "made", ".agent-dev-rollback/new"):
            turn += 1
            try: os.rename(name, f"/tmp/aside{turn}" if name.endswith("new") else f"aside{turn}")
            except OSError: pass
            try: os.symlink(victim + ("/new" if name.endswith("new") else ""), name)
            except OSError: continue
            for _ in range(300): os.path.lexists(name)
            try: os.unlink(name)
            except OSError: pass
            try: os.rename(f"aside{turn}", name)
            except OSError: pass
for _ in range(12):
    kept = ask(b"checkpoint").split()[1]
    thread = threading.Thread(target=swap); over.clear()
    shutil.rmtree("made", ignore_errors=True)
    thread.start()
    print(ask(b"rollback " + kept).decode("utf-8", "replace"), end="")
    over.set(); thread.join()
    for name in ("made", "made/a", ".agent-dev-rollback"):
        if os.path.islink(name): os.unlink(name)
    fill()
"""


@row("swap directories for links while the door rolls back", "each step beneath the root's own descriptor, no link is followed")
def test_b23_links_planted_while_it_rolls_back_lead_it_nowhere(world: World) -> None:
    guarded(world)
    victim = world.folder / "victim"
    (victim / "a").mkdir(parents=True)
    (victim / "a/f1").write_text("the user's")
    (victim / "new").write_text("the user's")
    before, repo = tree(victim), tree(world.repo)
    done = world.program("--no-merge", "--env", f"VICTIM={victim}", "--", PYTHON, "-I", "-c", RACE, timeout=180)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 12
    assert (tree(victim), tree(world.repo)) == (before, repo)


MASKED = r"""
agent-dev checkpoint
mv conf aside 2>/dev/null; rm -rf conf 2>/dev/null; mkdir -p conf; ln -s conf/secret link; rm -f README.md
agent-dev rollback 1
tx sh -c 'rm -rf conf link; exit 1'
tx sh -c 'mv conf other; exit 1'
grep -r canary . /run/agent-dev 2>/dev/null
true
"""


@row("have the door bring back what `mask:` hides", "rolled back through the sandbox's own mounts, where it is hidden")
def test_b24_a_rollback_shows_nothing_that_is_masked(world: World) -> None:
    guarded(world, "mask: [secret]")
    (world.repo / "conf").mkdir()
    (world.repo / "conf/secret").write_text("canary-of-the-repository\n")
    (world.repo / "conf/plain").write_text("plain\n")
    done = world.program("--no-merge", "--", "sh", "-c", MASKED)
    assert done.returncode == 0, done.stderr
    assert "canary" not in done.stdout
    assert "as at checkpoint 1" in done.stdout
    [session] = (world.program.state / "sessions").iterdir()
    places = (session / "roots", session / "checkpoints")  # what the session held; its base is the repository's, for the host
    files = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.is_relative_to(places[1]) for path in files)
    assert [path for path in files if b"canary-of-the-repository" in path.read_bytes()] == []
