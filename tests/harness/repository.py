"""Real git repositories for tests of the host's side, made with nothing of the user's configuration."""

import os
import subprocess
from pathlib import Path

ENVIRON = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/dev/null", "LC_ALL": "C"}
_CONFIG = {
    "user.name": "Ada",
    "user.email": "ada@example.invalid",
    "init.defaultBranch": "main",
    "gc.auto": "0",
    "protocol.file.allow": "always",
    "safe.directory": "*",
    "advice.detachedHead": "false",
}


def git(place: Path, *words: str, check: bool = True) -> str:
    """Run git in a directory; return what it says, both streams. Fails with that when git does."""
    numbered = {f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(_CONFIG)}
    numbered |= {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(_CONFIG.values())}
    env = (
        ENVIRON
        | {"GIT_CONFIG_COUNT": str(len(_CONFIG)), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        | numbered
    )
    done = subprocess.run(
        ["git", *words], cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60
    )
    said = done.stdout.decode("utf-8", "surrogateescape")
    assert done.returncode == 0 or not check, f"git {' '.join(words)}: {said}"
    return said


def repository(place: Path, *options: str) -> Path:
    """Make a repository with two commits and a file in a directory."""
    place.mkdir(parents=True)
    git(place, "init", "-q", *options)
    (place / "a.txt").write_text("one\n")
    (place / "sub").mkdir()
    (place / "sub/b.txt").write_text("two\n")
    commit(place, "first")
    (place / "a.txt").write_text("more\n")
    commit(place, "second")
    return place


def commit(place: Path, subject: str) -> str:
    """Commit everything; return the id."""
    git(place, "add", "-A")
    git(place, "commit", "-q", "--allow-empty", "-m", subject)
    return git(place, "rev-parse", "HEAD").strip()


def make_old(place: Path) -> None:
    """Make index entries older than the index, as they are a moment after any command."""
    for path in place.rglob("*"):
        if ".git" not in path.parts and not path.is_symlink():
            os.utime(path, ns=(10**18, 10**18))
    git(place, "update-index", "--refresh", "-q", check=False)


def trap(folder: Path) -> Path:
    """Return a program that leaves a marker beside itself when it is executed: `<name>.ran`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trap"
    path.write_text(f"#!/bin/sh\necho ran >>'{path}.ran'\ncat\n")
    path.chmod(0o755)
    return path


def has_run(path: Path) -> bool:
    """Whether a trap was executed."""
    return path.with_name(f"{path.name}.ran").exists()


def plant(git_dir: Path, path: Path) -> None:
    """Plant a trap wherever a git directory names programs: hooks, filters, fsmonitor, pager, editor, ssh, diff, aliases."""
    (git_dir / "hooks").mkdir(exist_ok=True)
    for hook in (
        "pre-commit",
        "post-commit",
        "post-index-change",
        "reference-transaction",
        "fsmonitor-watchman",
        "post-checkout",
    ):
        target = git_dir / "hooks" / hook
        target.write_bytes(path.read_bytes())
        target.chmod(0o755)
    with open(git_dir / "config", "a", encoding="utf-8") as config:
        config.write(
            f"[core]\n\tfsmonitor = {path}\n\tpager = {path}\n\teditor = {path}\n\tsshCommand = {path}\n\tuntrackedCache = true\n"
            f'[filter "trap"]\n\tclean = {path}\n\tsmudge = {path}\n\tprocess = {path}\n\trequired = true\n'
            f'[diff]\n\texternal = {path}\n[diff "trap"]\n\ttextconv = {path}\n\tcommand = {path}\n'
            f"[alias]\n\tlog = !{path}\n\tls-files = !{path}\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {path}\n"
            f"[uploadpack]\n\tpackObjectsHook = {path}\n[credential]\n\thelper = !{path}\n"
        )
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info/attributes").write_text("* filter=trap diff=trap\n")


def state_of(root: Path) -> dict[str, tuple[object, ...]]:
    """Return all that reading must leave as it is: of each path its bytes, mode, inode, mtime and ctime."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        data = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path)] = (data, status.st_mode, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    return found
