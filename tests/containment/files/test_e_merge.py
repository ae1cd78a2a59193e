"""CONTAINMENT E: applying changes. One hostile agent makes all of them; then all are merged."""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PYTHON, AgentDev, tree

HOSTILE = """if True:
    import errno, json, os, socket
    outside = os.environ["OUTSIDE"]
    os.symlink(f"{outside}/kept", "to-a-file")
    os.symlink("../../../../../../etc", "climbing")
    import shutil
    shutil.rmtree("swapped")
    os.symlink(outside, "swapped")
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    for name, mode in {"setuid": 0o4755, "setgid": 0o2755, "sticky": 0o1755}.items():
        open(name, "w").close()
        os.chmod(name, mode)
    told = {}
    open("attributes", "w").write("mine")
    for name in ("user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy", "security.capability", "user.mine"):
        try:
            os.setxattr("attributes", name, b"y")
            told[name] = "done"
        except OSError as error:
            told[name] = errno.errorcode[error.errno]
    shutil.rmtree("dir")
    os.mkdir("dir")
    open("dir/new", "w").write("new")
    os.unlink("flip-file"); os.mkdir("flip-file"); open("flip-file/in", "w").close()
    shutil.rmtree("flip-dir"); open("flip-dir", "w").write("a file now")
    os.chmod("run.sh", 0o755)
    with open("sparse", "wb") as file:
        file.truncate(2 << 30)
        file.seek(1 << 30); file.write(b"x")
    os.mkdir("deep"); here = os.open("deep", os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=here); below = os.open("d", os.O_RDONLY, dir_fd=here); os.close(here); here = below
    with open(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=here), "w") as file:
        file.write("end")
    for name in ("-rf", "--help", "@x", "~", "$(touch x)", "a\\nb", "\\x1b[2J", "*", "\\udcff\\udcfe"):
        open(name, "w").write("odd")
    open("kept-time", "r+").write("2")
    os.utime("kept-time", ns=(10**18, 10**18))
    os.mkdir("node_modules"); open("node_modules/x.js", "w").close()
    open("..evil", "w").close()
    print(json.dumps(told))
"""


@dataclass(frozen=True)
class Merge:
    """The machine after the merge, and its state before it."""

    world: Machine
    outside: Path
    before: dict[str, str]
    reported: dict[str, str]
    status: dict[str, Any]
    printed: str
    code: int

    @property
    def repo(self) -> Path:
        """Return the real tree."""
        return self.world.repo

    def change(self, path: str) -> dict[str, Any]:
        """Return what `status` printed for a path."""
        return next(change for change in self.status["changes"] if change["path"] == path)


def lay_out(repo: Path) -> None:
    for name in ("swapped", "dir", "flip-dir"):
        (repo / name).mkdir()
        (repo / name / "one").write_text("one")
        (repo / name / "two").write_text("two")
    for name in ("flip-file", "run.sh"):
        (repo / name).write_text("a file")
    (repo / "kept-time").write_text("1")
    os.utime(repo / "kept-time", ns=(10**18, 10**18))
    (repo / ".gitignore").write_text("node_modules/\n")


@pytest.fixture(scope="module")
def merge(shared: Machine) -> Iterator[Merge]:
    """Yield the machine after all changes of the hostile agent were merged."""
    program, outside = shared.program, shared.folder / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    lay_out(shared.repo)
    program.git("add", "-A")
    program.git("commit", "-q", "-m", "Lay out")
    before = tree(outside)
    done = program("--env", f"OUTSIDE={outside}", "--", PYTHON, "-I", "-c", HOSTILE, timeout=120)
    assert done.returncode == 0, done.stderr
    status = program.status()
    merged = program("merge", "--all", "--include-risky", "--yes-delete-many", timeout=300)
    yield Merge(shared, outside, before, json.loads(done.stdout), status, merged.stdout + merged.stderr, merged.returncode)
    # pytest cannot remove directories 2000 levels deep
    program("--rw", shared.folder, "--", "true")
    os.system(f"rm -rf '{shared.repo}/deep'")  # noqa: S605


@row("a new symlink to `/etc`, to a file outside, or upwards by `..`", "it is created as a symlink, never followed, and marked")
def test_e01_a_symlink_out_of_the_root_is_merged_and_marked(merge: Merge) -> None:
    assert os.readlink(merge.repo / "to-a-file") == f"{merge.outside}/kept"
    assert os.readlink(merge.repo / "climbing") == "../../../../../../etc"
    assert merge.change("climbing")["risks"]
    assert tree(merge.outside) == merge.before


@row("a directory replaced by a symlink, with files below it", "every step uses descriptors below the root")
def test_e02_a_directory_replaced_by_a_symlink_is_not_followed(merge: Merge) -> None:
    assert (merge.repo / "swapped").is_symlink()
    assert tree(merge.outside) == merge.before


@row("a FIFO, a socket or a device among the changes", "never opened; no merge blocks on it")
def test_e06_a_fifo_or_socket_does_not_hang_a_merge(merge: Merge) -> None:
    assert merge.code in (0, 1), merge.printed
    assert not (merge.repo / "socket").exists()
    fifo = merge.repo / "fifo"
    assert not fifo.exists() or stat.S_ISFIFO(fifo.lstat().st_mode)


@row("set-uid, set-gid and sticky bits", "removed, and marked")
def test_e07_special_bits_are_not_merged(merge: Merge) -> None:
    modes = {name: stat.S_IMODE((merge.repo / name).stat().st_mode) for name in ("setuid", "setgid", "sticky")}
    assert modes == dict.fromkeys(modes, 0o755)
    assert all(merge.change(name)["risks"] for name in modes)


@row("file capabilities and other kernel attributes", "cannot be set inside, and are never merged")
def test_e08_no_attribute_of_the_kernel_is_merged(merge: Merge) -> None:
    assert merge.reported["security.capability"] != "done"
    assert [name for name in os.listxattr(merge.repo / "attributes") if not name.startswith("user.")] == []


CAPABLE = """if True:
    import os, struct
    os.makedirs("new/deep")
    for path in ("new/deep/program", "README.md"):
        with open(path, "a") as file:
            file.write("#!/bin/sh")
        os.chmod(path, 0o755)
        os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 0x1000, 0, 0, 0))
"""


@row(
    "file capabilities from a nested user namespace, which are valid on the host if root runs the agent",
    "they are stored where only you have access, and are never merged",
)
def test_e08_capabilities_set_in_a_nested_sandbox_are_not_merged(agent_dev: AgentDev) -> None:
    done = agent_dev("--no-merge", "--", "unshare", "-r", PYTHON, "-I", "-c", CAPABLE)
    assert done.returncode == 0, done.stderr
    assert "security.capability" in os.listxattr(next(agent_dev.state.glob("sessions/*/roots/0/upper/README.md")))
    assert agent_dev.state.stat().st_mode & 0o077 == agent_dev.agent_home.stat().st_mode & 0o077 == 0
    assert agent_dev("merge", "--all", "--include-risky").returncode == 0
    assert (agent_dev.repo / "new/deep/program").exists()
    assert [path for path in agent_dev.repo.rglob("*") if "security.capability" in os.listxattr(path)] == []


@row("overlay attributes set inside", "they are stored escaped, and never merged")
def test_e09_no_attribute_of_the_overlay_is_merged(merge: Merge) -> None:
    found = [path for path in merge.repo.iterdir() if not path.is_symlink() and path.name != "deep"]
    assert [path for path in found for name in os.listxattr(path) if "overlay" in name] == []


@row("empty a directory by recreating it", "each missing file is a change of its own")
def test_e13_every_file_of_a_recreated_directory_is_listed(merge: Merge) -> None:
    kinds = {change["path"]: change["kind"] for change in merge.status["changes"]}
    assert {kinds[f"dir/{name}"] for name in ("one", "two")} == {"deleted"}
    assert sorted(path.name for path in (merge.repo / "dir").iterdir()) == ["new"]


@row("turn files into directories and the reverse", "each replacement is one planned operation")
def test_e15_files_and_directories_can_replace_each_other(merge: Merge) -> None:
    assert (merge.repo / "flip-file/in").is_file()
    assert (merge.repo / "flip-dir").read_text() == "a file now"


@row("a huge file with holes", "holes are preserved: it takes a few blocks")
def test_e17_a_huge_sparse_file_takes_no_disk_space(merge: Merge) -> None:
    found = (merge.repo / "sparse").stat()
    assert found.st_size == 2 << 30
    assert found.st_blocks * 512 < 1 << 20


@row(
    "a tree 2000 directories deep",
    "walked by descriptors, without recursion; paths longer than 4096 bytes stay in the session and are reported",
)
def test_e18_a_very_deep_tree_is_merged(merge: Merge) -> None:
    here, depth = os.open(merge.repo / "deep", os.O_RDONLY), 0
    while "d" in os.listdir(here):
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, depth = below, depth + 1
    assert (depth, os.listdir(here)) == (2000, ["end"])
    os.close(here)


@row("an edit with the old size and a forged time", "content, inode and ctime decide, never mtime alone")
def test_e21_an_edit_with_a_forged_time_is_detected(merge: Merge) -> None:
    assert merge.change("kept-time")["kind"] == "edited"
    assert (merge.repo / "kept-time").read_text() == "2"


@row("hide a change among files that git ignores", "ignored changes are listed separately and selected only by name")
def test_e22_ignored_changes_are_not_selected_by_all(merge: Merge) -> None:
    assert not (merge.repo / "node_modules").exists()


@row("make a file executable and nothing else", "it is a change, and shown")
def test_e24_a_mode_change_alone_is_a_change(merge: Merge) -> None:
    assert merge.change("run.sh")["kind"] == "metadata"
    assert os.access(merge.repo / "run.sh", os.X_OK)


@row(
    "names that are options, patterns or shell commands",
    "no shell is used, and names are never read as options: merged literally",
)
def test_a17_names_with_shell_syntax_are_merged_literally(merge: Merge) -> None:
    for name in ("-rf", "--help", "@x", "~", "$(touch x)", "*"):
        assert (merge.repo / name).read_text() == "odd", name
    assert not (merge.repo / "x").exists()
    assert merge.change("-rf")["kind"] == "added"


@row(
    "names that look like options, shell commands or escape sequences",
    "no shell is used, names are handled as bytes and shown escaped",
)
def test_e25_unusual_names_are_merged_literally_within_the_root(merge: Merge) -> None:
    names = {os.fsencode(name) for name in os.listdir(merge.repo)}
    assert {b"-rf", b"--help", b"@x", b"~", b"$(touch x)", b"a\nb", b"\x1b[2J", b"*", b"\xff\xfe", b"..evil"} <= names
    assert b"x" not in names
    assert "\x1b" not in merge.printed


@row("write to the real file through a hard link kept by a resumed session", "adopted files share no inode with the session")
def test_e26_a_kept_hard_link_does_not_write_the_real_file(agent_dev: AgentDev) -> None:
    agent_dev("--name", "one", "--", "sh", "-c", "echo taken >new; ln new ~/kept; ln new other")
    agent_dev("merge", "--take", "new")
    agent_dev("resume", "one", "--", "sh", "-c", "echo hostile >other; echo hostile >~/kept")
    assert (agent_dev.repo / "new").read_text() == "taken\n"
