"""CONTAINMENT B: a hostile agent uses the control socket for transactions inside."""

import json

import pytest

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PYTHON, tree

HOSTILE = r"""
import array, json, os, select, socket, sys
DOOR = "/run/agent-dev/control"
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


def guarded(world: Machine, *lines: str) -> None:
    folder = world.folder / "config/agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("\n".join(("tx_inside: true", "checkpoint_minutes: 0", *lines)) + "\n")


@pytest.fixture(scope="module")
def found(shared: Machine) -> dict[str, object]:
    """Return the responses to all requests except the valid ones."""
    guarded(shared)
    before = tree(shared.home)
    done = shared.program("--no-merge", "--", PYTHON, "-I", "-c", HOSTILE, timeout=180)
    assert done.returncode == 0, done.stderr
    after = tree(shared.home)
    assert {path: one for path, one in after.items() if not path.startswith("aihome")} == before
    value: dict[str, object] = json.loads(done.stdout)
    return value


@row(
    "send other requests than begin, commit, rollback and checkpoint to the control socket",
    "four requests, one short line each, strictly parsed",
)
def test_b21_the_control_socket_accepts_only_four_requests(found: dict[str, object], shared: Machine) -> None:
    argv = found["words"]
    assert isinstance(argv, list)
    assert [word for word in argv if not word.startswith("no ")] == []
    assert str(shared.folder) not in json.dumps(found)


@row(
    "send descriptors, floods and partial lines to the control socket, open a hundred connections",
    "everything is bounded; flooding clients are disconnected",
)
def test_b22_the_control_socket_survives_abuse(found: dict[str, object]) -> None:
    assert (found["long"], str(found["with_descriptors"])[:3], str(found["after"])[:3]) == ("", "ok ", "ok ")


RACE = r"""
import os, shutil, socket, threading
victim = os.environ["VICTIM"]
def ask(word):
    line = socket.socket(socket.AF_UNIX); line.connect("/run/agent-dev/control"); line.sendall(word + b"\n")
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


@row(
    "replace directories with symlinks during a rollback by the control server",
    "every step is relative to the root's descriptor, and no symlink is followed",
)
def test_b23_symlinks_planted_during_a_rollback_are_not_followed(world: Machine) -> None:
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


@row("have a rollback restore what `mask:` hides", "the rollback works through the sandbox's own mounts, where it is masked")
def test_b24_a_rollback_reveals_no_masked_file(world: Machine) -> None:
    guarded(world, "mask: [secret]")
    (world.repo / "conf").mkdir()
    (world.repo / "conf/secret").write_text("canary-of-the-repository\n")
    (world.repo / "conf/plain").write_text("plain\n")
    done = world.program("--no-merge", "--", "sh", "-c", MASKED)
    assert done.returncode == 0, done.stderr
    assert "canary" not in done.stdout
    assert "rolled back to checkpoint 1" in done.stdout
    [session] = (world.program.state / "sessions").iterdir()
    places = (session / "roots", session / "checkpoints")  # without the lower snapshot, which contains the repository's files
    files = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.is_relative_to(places[1]) for path in files)
    assert [path for path in files if b"canary-of-the-repository" in path.read_bytes()] == []
