"""CONTAINMENT E: data between an agent and the real tree: journals, stored sessions, the lower layer, rollbacks while running."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PYTHON, tree, wait_until
from tests.harness.scale import repeat

MANY = repeat(3000)
ELSEWHERE = ["../../evil", "/tmp/evil", "sub//app.py", "a\0b", "sub/./app.py"]


def rewritten(journal: Path, path: str) -> None:
    """Replace the path of every operation in a journal, with valid checksums."""
    lines, chain = [], 0
    for line in journal.read_bytes().splitlines():
        record = json.loads(line[9:])
        for op in record.get("ops", ()) if record["record"] == "intent" else ():
            op[2] = path
        body = json.dumps(record, separators=(",", ":")).encode()
        chain = zlib.crc32(body, chain)
        lines.append(b"%08x %b\n" % (chain, body))
    journal.write_bytes(b"".join(lines))


@row(
    "`..`, absolute or empty components in a forged journal",
    "the journal is checked when it is read: nothing is done, and the reason is reported",
)
def test_e04_a_journal_with_paths_outside_the_root_is_rejected(world: Machine) -> None:
    world.program("--no-merge", "--", "sh", "-c", "echo agent >README.md")
    assert world.program("merge", "--all").returncode == 0
    [journal] = world.program.state.glob("merges/*/journal")
    good, before = journal.read_bytes(), tree(world.repo)
    for path in ELSEWHERE:
        rewritten(journal, path)
        done = world.program("undo", journal.parent.name)
        assert done.returncode != 0, path
        assert "not a path below a root" in done.stderr
        assert "Traceback" not in done.stderr
        assert tree(world.repo) == before
        journal.write_bytes(good)
    assert world.program("undo").returncode == 0
    assert (world.repo / "README.md").read_text() == "# Shop\n"


def test_a_path_outside_the_root_cannot_be_selected(world: Machine) -> None:
    world.program("--no-merge", "--", "sh", "-c", "echo agent >README.md")
    before = tree(world.folder)
    for path in ("../../evil", "/etc/passwd", "sub/../../../x"):
        assert world.program("merge", "--take", path).returncode != 0
    assert {name: what for name, what in tree(world.folder).items() if "/state/" not in f"/{name}"} == {
        name: what for name, what in before.items() if "/state/" not in f"/{name}"
    }


@row(
    "overlay attributes in the real tree, from a hostile clone or an earlier program: files that no agent can see or change",
    "a merge never sets any; each run searches for existing ones and reports them",
)
def test_e10_overlay_attributes_in_the_real_tree_are_reported(world: Machine) -> None:
    (world.repo / "meta").write_text("real\n")
    os.setxattr(world.repo / "meta", "user.overlay.metacopy", b"")
    (world.repo / "sub/deep/opaque").mkdir()
    os.setxattr(world.repo / "sub/deep/opaque", "user.overlay.opaque", b"y")
    if os.getuid() == 0:
        os.mknod(world.repo / "gone", 0o20000, 0)
    for number in range(5):
        os.mkdir(world.repo / f"red{number}")
        os.setxattr(world.repo / f"red{number}", "user.overlay.redirect", b"/sub")
    before = tree(world.repo)
    world.program("--no-merge", "--", "sh", "-c", "echo new >new; cat meta; ls gone; sleep 0.3")
    notes = " ".join(world.program.status()["notes"])
    for name in ("meta", "red0", *(["gone"] if os.getuid() == 0 else [])):
        assert name in notes
    assert "…" in notes
    assert "overlayfs attributes" in world.program("status").stdout
    assert world.program("merge", "--all").returncode == 0
    (world.repo / "new").unlink()
    assert tree(world.repo) == before


def test_a_tree_without_overlay_attributes_has_no_note(world: Machine) -> None:
    os.setxattr(world.repo / "README.md", "user.mine", b"x")
    world.program("--no-merge", "--", "sh", "-c", "echo new >new; sleep 0.3")
    assert world.program.status()["notes"] == []


@row(
    "forge overlay attributes in a stored session, between two runs",
    "an unknown attribute stops everything: nothing is merged or run",
)
def test_e12_a_forged_overlay_attribute_in_a_session_stops_everything(world: Machine) -> None:
    program = world.program
    program("--no-merge", "--name", "one", "--", "sh", "-c", "echo agent >README.md; mkdir d; echo x >d/new")
    upper = next((program.state / "sessions").iterdir()) / "roots/0/upper"
    before, kept = tree(world.repo), program("checkpoints").stdout
    forged = {"redirect": ("d", b"/etc"), "metacopy": ("README.md", b""), "opaque": ("d", b"x")}
    for name, (path, value) in forged.items():
        os.setxattr(upper / path, f"user.overlay.{name}", value)
        for argv in (["status"], ["diff"], ["merge", "--all"], ["resume", "one", "--", "touch", "ran"]):
            done = program(*argv)
            assert done.returncode != 0, (name, argv)
            assert f"carries the overlay attribute {name}" in done.stderr
            assert "Traceback" not in done.stderr
        assert tree(world.repo) == before
        assert not (upper / "ran").exists()
        os.removexattr(upper / path, f"user.overlay.{name}")
    assert program("checkpoints").stdout == kept
    assert program("merge", "--all").returncode == 0
    assert (world.repo / "d/new").read_text() == "x\n"


@row("more changes than anybody can review", "all are listed and counted; the plan is made in one pass")
def test_e19_thousands_of_changes_are_all_listed_and_merged(world: Machine) -> None:
    script = f"mkdir d; cd d; seq {MANY} | split -l 1 -a 5; rm -f ../README.md"
    assert world.program("--no-merge", "--", "sh", "-c", script).returncode == 0
    changes = world.program.changes()
    assert len([path for path, kind in changes.items() if kind == "added"]) == MANY
    assert changes["README.md"] == "deleted"
    assert world.program("merge", "--all", timeout=300).returncode == 0
    assert len(os.listdir(world.repo / "d")) == MANY


SWAPPING = """if True:
    import os, sys
    victim = sys.argv[1]
    print("ready", flush=True)
    os.symlink(victim, "link")
    def swap():
        os.rename("made", "aside"); os.rename("link", "made")
        os.rename("made", "link"); os.rename("aside", "made")
    def put_right():
        for name in ("link", "made", "aside"):
            if os.path.islink(name) and name != "link": os.unlink(name)
        if not os.path.islink("link"): os.symlink(victim, "link")
        if not os.path.isdir("made"): os.makedirs("made", exist_ok=True)
    while not os.path.exists("/tmp/stop"):
        for act in (swap, put_right):
            try:
                act()
                break
            except OSError: pass  # the rollback was there in between
        if sys.stdin in __import__("select").select([sys.stdin], [], [], 0)[0]: break
"""


@row(
    "replace a directory with a symlink to the host during a rollback of a running session",
    "every step is relative to a descriptor of the root, without following symlinks: no file of the host is created",
)
def test_e27_a_directory_replaced_during_a_rollback_is_not_followed(world: Machine) -> None:
    victim = world.folder / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    before = tree(victim)
    make = (
        "import os; os.mkdir('made'); [open(f'made/{n}', 'w').write('x') for n in range(60)]; print('made', flush=True);input();"
    )
    wait = f"exec(open({str(world.folder / 'swap.py')!r}).read())"
    (world.folder / "swap.py").write_text(SWAPPING)
    argv: list[Any] = ["--ro", world.folder / "swap.py", "--", PYTHON, "-u", "-c", make + wait, victim]
    with world.program.start(*argv) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "made\n"
        number = world.program("checkpoint").stdout.split()[1]
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        for _ in range(4):
            done = world.program("rollback", number)
            assert "Traceback" not in done.stderr
            assert tree(victim) == before
        process.stdin.write("end\n")
        process.stdin.flush()
        wait_until(lambda: process.poll() is not None, "the agent ends", 30)
    assert tree(victim) == before
