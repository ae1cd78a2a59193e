"""After random operations of an agent on the real tree, a restore matches a copy made by `cp -a`, compared by lstat.

Each test prints its seed; AGENT_DEV_TEST_SEED sets the first one, AGENT_DEV_TEST_SCALE scales the number of seeds.
"""

import os
import random
import shutil
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev
from tests.harness.scale import repeat

FIRST = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
MANY = repeat(4)
MODES = (0o644, 0o600, 0o755, 0o444, 0o400, 0o000, 0o4755, 0o2755, 0o1644, 0o777)
FOLDER_MODES = (0o755, 0o700, 0o1777, 0o2755, 0o555, 0o500)
AGENT = r"""if True:
    import os, random, shutil, socket, stat, subprocess, sys
    rng, steps = random.Random(int(sys.argv[1])), int(sys.argv[2])
    modes, folder_modes = eval(sys.argv[3]), eval(sys.argv[4])

    def paths():
        found = []
        for place, folders, files in os.walk("."):
            if place == "." and ".git" in folders:
                folders.remove(".git")
            found += [os.path.join(place, name) for name in (*folders, *files)]
        return sorted(found) or ["./README.md"]

    def kind(path):
        return stat.S_IFMT(os.lstat(path).st_mode)

    def new():
        folders = [path for path in paths() if os.path.isdir(path) and not os.path.islink(path)] or ["."]
        return f"{rng.choice(['.', *folders])}/n{rng.randrange(10**6)}"

    def write(path):
        if kind(path) == stat.S_IFREG:
            with open(path, rng.choice(["wb", "ab"])) as file:
                file.write(rng.randbytes(rng.randrange(50)))

    def remove(path):
        shutil.rmtree(path) if kind(path) == stat.S_IFDIR else os.unlink(path)

    def chmod(path):
        if kind(path) != stat.S_IFLNK:
            os.chmod(path, rng.choice(folder_modes if kind(path) == stat.S_IFDIR else modes))

    def mark(path):
        name = rng.choice(["user.note", "user.overlay.opaque", "user.overlay.metacopy", "user.other"])
        os.setxattr(path, name, b"y", follow_symlinks=False)

    def unmark(path):
        for name in os.listxattr(path, follow_symlinks=False):
            if name.startswith("user."):
                os.removexattr(path, name, follow_symlinks=False)

    def share(path):
        subprocess.run(["setfacl", rng.choice(["-m", "-x"]), "u:12345" + rng.choice([":r", ":rw", ""]), path], stderr=-3)

    def make(path):
        rng.choice([
            lambda: open(path, "xb").write(b"new"), lambda: os.mkdir(path), lambda: os.makedirs(path + "/a/b"),
            lambda: os.symlink("x", path), lambda: os.mkfifo(path), lambda: socket.socket(socket.AF_UNIX).bind(path),
            lambda: os.mknod(path, 0o020000, 0), lambda: os.link(rng.choice(paths()), path, follow_symlinks=False),
            lambda: subprocess.run(["git", "init", "-q", path], check=True),
        ])()

    deeds = [
        lambda: write(rng.choice(paths())), lambda: remove(rng.choice(paths())), lambda: chmod(rng.choice(paths())),
        lambda: mark(rng.choice(paths())), lambda: unmark(rng.choice(paths())), lambda: share(rng.choice(paths())),
        lambda: make(new()), lambda: make(new()), lambda: os.rename(rng.choice(paths()), new()),
        lambda: os.replace(rng.choice(paths()), rng.choice(paths())),
        lambda: os.utime(rng.choice(paths()), (1, 1), follow_symlinks=False),
    ]
    for _ in range(steps):
        try:
            rng.choice(deeds)()
        except (OSError, shutil.Error, subprocess.CalledProcessError):
            pass
"""


def planted(rng: random.Random, repo: Path) -> None:
    """Fill a tree with files, directories, symlinks, modes, extended attributes and a repository."""
    folders = [repo]
    for number in range(rng.randrange(3, 8)):
        folders.append(rng.choice(folders) / f"d{number}")
        folders[-1].mkdir()
    for number in range(rng.randrange(8, 20)):
        path = rng.choice(folders) / f"f{number}"
        path.write_bytes(rng.randbytes(rng.randrange(100)))
        os.utime(path, ns=(10**18 + number, 10**18 + number))
        if rng.random() < 0.4:
            os.setxattr(path, "user.note", rng.randbytes(5))
        if rng.random() < 0.2:
            subprocess.run(["setfacl", "-m", "u:12345:rw", str(path)], check=True)
        path.chmod(rng.choice(MODES))
    (rng.choice(folders) / "link").symlink_to("f0")
    os.mkfifo(rng.choice(folders) / "fifo")
    nested = rng.choice(folders) / "nested"
    subprocess.run(["git", "init", "-q", str(nested)], check=True)
    for folder in folders[1:]:
        folder.chmod(rng.choice(FOLDER_MODES))


def held(root: Path) -> dict[str, tuple[object, ...]]:
    """Return the entries of a tree: type, mode, content or target, device, attributes; unreadable ones are opened temporarily."""
    found: dict[str, tuple[object, ...]] = {}
    waiting = [os.fsencode(root)]
    while waiting:
        place = waiting.pop()
        status = os.lstat(place)
        kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
        data: object = os.readlink(place) if kind == stat.S_IFLNK else status.st_rdev if kind == stat.S_IFCHR else None
        if kind in (stat.S_IFREG, stat.S_IFDIR) and os.getuid():
            os.chmod(place, mode | 0o700)
        names = os.listxattr(place, follow_symlinks=False)
        attributes = {name: os.getxattr(place, name, follow_symlinks=False) for name in names if _is_kept(name, kind)}
        if kind == stat.S_IFREG:
            with open(place, "rb") as file:
                data = file.read()
        elif kind == stat.S_IFDIR:
            waiting += [place + b"/" + name for name in os.listdir(place) if (place, name) != (os.fsencode(root), b".git")]
        if kind in (stat.S_IFREG, stat.S_IFDIR) and os.getuid():
            os.chmod(place, mode)
        if kind == stat.S_IFREG and not mode & 0o400 and os.getuid():
            attributes = {}  # not restored (decision 0021)
        found[os.fsdecode(os.path.relpath(place, os.fsencode(root)))] = (kind, oct(mode), data, sorted(attributes.items()))
    return found


def _is_kept(name: str, kind: int) -> bool:
    """Return whether an attribute is compared: ACLs of directories are not restored (decision 0021)."""
    return name.startswith("user.") or (name == "system.posix_acl_access" and kind == stat.S_IFREG)


@pytest.mark.parametrize("number", range(MANY))
def test_a_restore_matches_a_copy_of_the_tree(agent_dev: AgentDev, tmp_path: Path, number: int) -> None:
    seed = FIRST + number
    print(f"seed {seed}")  # noqa: T201  (pytest shows it if the test fails)
    rng = random.Random(seed)  # noqa: S311
    planted(rng, agent_dev.repo)
    before = held(agent_dev.repo)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(agent_dev.repo), str(copy)], check=os.getuid() == 0, capture_output=True)
    steps = rng.randrange(5, 40)
    words = (PYTHON, "-I", "-c", AGENT, str(seed), str(steps), repr(MODES), repr((*FOLDER_MODES, 0)))
    done = agent_dev("run", "--direct", "--", *words)
    assert done.returncode == 0, done.stderr
    restored = agent_dev("restore")
    after = held(agent_dev.repo)
    differing = {path: (before.get(path), after.get(path)) for path in before | after if before.get(path) != after.get(path)}
    assert differing == {}, restored.stdout + restored.stderr
    assert restored.returncode == 0, restored.stdout + restored.stderr
    if os.getuid() == 0:
        assert held(copy) == after
    again = agent_dev("restore")
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "everything equals the snapshot")
    for path in (agent_dev.repo, copy):
        subprocess.run(["chmod", "-R", "u+rwx", str(path)], check=False, capture_output=True)
    shutil.rmtree(copy, ignore_errors=True)


def test_lost_sockets_are_reported(agent_dev: AgentDev) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(agent_dev.repo / "s"))
    done = agent_dev("run", "--direct", "--", "rm", "s")
    assert done.returncode == 0
    restored = agent_dev("restore")
    assert "s: a socket cannot be restored" in restored.stdout + restored.stderr
    assert "everything equals the snapshot" not in restored.stdout
