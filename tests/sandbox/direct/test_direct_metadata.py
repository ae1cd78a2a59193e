"""Direct mode: a restore restores or names whiteout devices, overlay attributes, and setuid, setgid and sticky bits."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.harness import program
from tests.harness.program import AgentDev
from tests.sandbox.direct.test_direct import plain, ran, tree

__all__ = ["plain"]

BITS = {"setuid": 0o4755, "setgid": 0o2755, "both": 0o6711, "sticky": 0o1644}
FOLDER_BITS = {"dir-setgid": 0o2775, "dir-sticky": 0o1777, "dir-all": 0o7755}


def is_whiteout(path: Path) -> bool:
    """Return whether a path is a device 0:0, through which a later overlay would hide a file; every user may create one."""
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def overlay_attributes(repo: Path) -> dict[str, list[str]]:
    """Return the overlay attributes below a directory: path → names."""
    found = {}
    for path in (repo, *repo.rglob("*")):
        if names := [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user.overlay.")]:
            found[str(path.relative_to(repo))] = names
    return found


WHITEOUTS = {
    "new": "mknod made c 0 0; mkdir -p d/e; mknod d/e/made c 0 0",
    "in a file's place": "rm README.md; mknod README.md c 0 0",
    "in a directory's place": "rm -r folder; mknod folder c 0 0",
    "in a link's place": "rm link; mknod link c 0 0",
    "beside a file": "mknod sub/made c 0 0; chmod 0 sub/made; ln sub/made twin",
}


@pytest.mark.parametrize("script", WHITEOUTS.values(), ids=WHITEOUTS.keys())
def test_whiteouts_that_the_agent_made_are_removed(plain: AgentDev, script: str) -> None:
    before = tree(plain.repo)
    ran(plain, script)
    assert any(is_whiteout(path) for path in plain.repo.rglob("*"))
    done = plain("restore")
    assert (done.returncode, tree(plain.repo)) == (0, before), done.stdout + done.stderr
    again = plain("restore")
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "everything equals the snapshot")


@pytest.mark.parametrize("script", ["rm mine", "rm mine; echo x >mine", "mv mine moved", "rm -r holder", "mv holder away"])
def test_a_lost_whiteout_of_the_user_is_named(plain: AgentDev, script: str) -> None:
    (plain.repo / "holder").mkdir()
    for name in ("mine", "holder/mine"):
        os.mknod(plain.repo / name, stat.S_IFCHR | 0o644, 0)
    ran(plain, f"echo changed >README.md; {script}")
    done = plain("restore")
    output = done.stdout + done.stderr
    name = "holder/mine" if "holder" in script else "mine"
    assert (done.returncode, f"{name}: a device cannot be restored" in output) == (1, True), output
    assert "everything equals the snapshot" not in output
    assert (plain.repo / "README.md").read_text() == "# Shop\n"


def test_an_unchanged_whiteout_of_the_user_stays(plain: AgentDev) -> None:
    os.mknod(plain.repo / "mine", stat.S_IFCHR | 0o644, 0)
    ran(plain, "echo changed >README.md")
    done = plain("restore")
    assert (done.returncode, is_whiteout(plain.repo / "mine")) == (0, True), done.stdout + done.stderr


MARK = """
for name in opaque metacopy redirect origin impure whiteout; do
    setfattr -n user.overlay.$name -v y . sub sub/app.py script made made/deep made/file
done
"""


def test_overlay_attributes_of_the_agent_are_gone_after_the_run(plain: AgentDev) -> None:
    before = tree(plain.repo)
    ran(plain, f"mkdir -p made/deep; echo x >made/file; chmod 444 made/file; {MARK} chmod 500 made")
    assert overlay_attributes(plain.repo) == {}
    assert stat.S_IMODE((plain.repo / "made").stat().st_mode) == 0o500
    done = plain("restore")
    assert (done.returncode, tree(plain.repo)) == (0, before), done.stdout + done.stderr
    assert overlay_attributes(plain.repo) == {}


# What the agent does, what the user does then, and the attributes that a restore cannot restore.
USERS = [
    ("true", "", []),
    ("setfattr -n user.overlay.opaque -v x sub sub/app.py .", "", []),
    ("chmod 400 sub/app.py; setfattr -n user.overlay.origin -v x .; setfattr -n user.overlay.opaque -v x .", "", ["sub/app.py"]),
    ("setfattr -x user.overlay.opaque sub", "", []),
    ("setfattr -x user.overlay.opaque .", "", []),
    ("rm -r sub", "", ["sub/app.py"]),
    ("mv sub/app.py app; ln -s ../app sub/app.py", "", ["sub/app.py"]),
    ("rm -r sub", "mkdir sub; ln -s x sub/app.py", ["sub/app.py"]),
]


@pytest.mark.parametrize(("script", "later", "named"), USERS)
def test_overlay_attributes_of_the_user_are_restored_or_named(plain: AgentDev, script: str, later: str, named: list[str]) -> None:
    expected = dict.fromkeys((".", "sub", "sub/app.py"), b"n")
    for name, value in expected.items():
        os.setxattr(plain.repo / name, "user.overlay.opaque", value)
    ran(plain, f"echo changed >README.md; {script}")
    subprocess.run(["sh", "-c", later], cwd=plain.repo, check=True)
    done = plain("restore")
    assert (plain.repo / "README.md").read_text() == "# Shop\n"
    held = {name: os.getxattr(plain.repo / name, "user.overlay.opaque") for name in overlay_attributes(plain.repo)}
    assert held == {name: value for name, value in expected.items() if name not in named}
    assert done.returncode == bool(named), done.stdout + done.stderr
    for name in expected:
        line = f"not restored: {name}: the attribute user.overlay.opaque cannot be restored"
        assert (line in done.stdout.splitlines()) == (name in named), done.stdout
    done = plain("undo")
    assert done.returncode == 0, done.stdout


ROOTS = {
    "chmod 2711 .": ".: its mode is 2711; the former mode 755",
    "setfattr -n user.note -v two .": ".: the attribute user.note",
    "setfattr -x user.note .": ".: the attribute user.note",
    "setfattr -n user.new -v two .": ".: the attribute user.new",
}


@pytest.mark.parametrize("script", ROOTS)
def test_changes_of_the_root_itself_are_named(plain: AgentDev, script: str) -> None:
    plain.repo.chmod(0o755)
    os.setxattr(plain.repo, "user.note", b"one")
    ran(plain, f"echo changed >README.md; {script}")
    for _ in range(2):
        done = plain("restore")
        assert (done.returncode, f"not restored: {ROOTS[script]} cannot be restored" in done.stdout) == (1, True), done.stdout
        assert "everything equals the snapshot" not in done.stdout
    assert (plain.repo / "README.md").read_text() == "# Shop\n"
    plain.repo.chmod(0o755)
    for name in os.listxattr(plain.repo):
        os.removexattr(plain.repo, name)
    os.setxattr(plain.repo, "user.note", b"one")
    done = plain("restore")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "everything equals the snapshot")


CHANGES = {
    "removed": "chmod 644 {files}; chmod 755 {folders}",
    "rewritten": "for f in {files}; do echo changed >$f; done",
    "replaced": "for f in {files}; do cp $f new; mv new $f; done; for d in {folders}; do rm -r $d; mkdir $d; done",
    "deleted": "rm -r {files} {folders}",
    "of another type": "rm -r {files} {folders}; mkdir {files}; touch {folders}",
    "moved": "mkdir away; mv {files} {folders} away",
    "on others": "chmod 7755 script folder README.md; chmod u-s {files}",
}


@pytest.mark.parametrize("script", CHANGES.values(), ids=CHANGES.keys())
def test_setuid_setgid_and_sticky_bits_are_restored(plain: AgentDev, script: str) -> None:
    for name, mode in BITS.items():
        (plain.repo / name).write_text(f"{name}\n")
        (plain.repo / name).chmod(mode)
    for name, mode in FOLDER_BITS.items():
        (plain.repo / name).mkdir()
        (plain.repo / name / "in").write_text("in\n")
        (plain.repo / name).chmod(mode)
    before = program.tree(plain.repo)
    modes = {name: stat.S_IMODE((plain.repo / name).stat().st_mode) for name in (*BITS, *FOLDER_BITS)}
    assert modes == BITS | FOLDER_BITS
    ran(plain, script.format(files=" ".join(BITS), folders=" ".join(FOLDER_BITS)))
    assert program.tree(plain.repo) != before
    done = plain("restore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: stat.S_IMODE((plain.repo / name).stat().st_mode) for name in modes} == modes
    assert tree(plain.repo) == {path: entry for path, entry in before.items() if not path.startswith(".git/")}


def test_an_attribute_of_a_directory_that_became_read_only_is_removed(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "d").mkdir(0o755)
    agent_dev.do("run", "--direct", "--", "/bin/sh", "-ec", "setfattr -n user.other -v y d; chmod 500 d")
    done = agent_dev("restore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert os.listxattr(agent_dev.repo / "d") == []
    assert (agent_dev.repo / "d").stat().st_mode & 0o7777 == 0o755
