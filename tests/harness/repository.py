"""Real git repositories for tests on the host, without the user's configuration."""

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


def git(folder: Path, *argv: str, check: bool = True, **variables: str) -> str:
    """Run git in a directory, with some variables; return stdout and stderr together. Fails if git fails."""
    numbered = {f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(_CONFIG)}
    numbered |= {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(_CONFIG.values())}
    env = (
        ENVIRON
        | {"GIT_CONFIG_COUNT": str(len(_CONFIG)), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        | numbered
        | variables
    )
    done = subprocess.run(
        ["git", *argv], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60
    )
    output = done.stdout.decode("utf-8", "surrogateescape")
    assert done.returncode == 0 or not check, f"git {' '.join(argv)}: {output}"
    return output


def repository(folder: Path, *options: str) -> Path:
    """Create a repository with two commits and a file in a subdirectory."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", *options)
    (folder / "a.txt").write_text("one\n")
    (folder / "sub").mkdir()
    (folder / "sub/b.txt").write_text("two\n")
    commit(folder, "first")
    (folder / "a.txt").write_text("more\n")
    commit(folder, "second")
    return folder


def commit(folder: Path, subject: str) -> str:
    """Commit everything; return the id."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", subject)
    return git(folder, "rev-parse", "HEAD").strip()


def age_index_entries(folder: Path) -> None:
    """Make index entries older than the index, as they are a moment after any command."""
    for path in folder.rglob("*"):
        if ".git" not in path.parts and not path.is_symlink():
            os.utime(path, ns=(10**18, 10**18))
    git(folder, "update-index", "--refresh", "-q", check=False)


def make_trap(folder: Path) -> Path:
    """Return a program that creates a marker next to itself when executed: `<name>.ran`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trap"
    path.write_text(f"#!/bin/sh\necho ran >>'{path}.ran'\ncat\n")
    path.chmod(0o755)
    return path


def has_run(path: Path) -> bool:
    """Return whether a trap was executed."""
    return path.with_name(f"{path.name}.ran").exists()


def plant_traps(git_dir: Path, path: Path) -> None:
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
    """Return everything that reading must not change: of each path its bytes, mode, inode, mtime and ctime."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        data = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path)] = (data, status.st_mode, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    return found
