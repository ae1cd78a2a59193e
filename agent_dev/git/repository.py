"""The user's repository: finding it and running git in it. Only the user's own git directory is opened."""

import errno
import os

from agent_dev import debug
from agent_dev.errors import NoDirectory, Refused
from agent_dev.linux import streams
from agent_dev.paths import is_below
from agent_dev.value import Value

# Plumbing only, with every setting off that could start a program configured in the repository.
SAFE_OPTIONS = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "core.pager=cat",
    "-c",
    "protocol.allow=never",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
)
# Endings of git's error messages for a full disk.
_DISK_FULL_ENDINGS = {
    b"No space left on device": errno.ENOSPC,
    b"Out of diskspace": errno.ENOSPC,  # a write that was cut short (git: csum-file.c)
    b"Disk quota exceeded": errno.EDQUOT,
}


class WorkTreeGitDir(Value):
    """A work tree's git dir. `common`: shared by linked work trees; `inside`: the git dir lies in the root itself."""

    folder: str
    common: str
    inside: bool

    @property
    def is_linked(self) -> bool:
        """Return whether this is a linked work tree."""
        return self.folder != self.common


class SessionLocation(Value):
    """The root of a session (top of a work tree, or the directory itself) and its git dir, if any."""

    root: str
    git: WorkTreeGitDir | None


def find_location(start: str) -> SessionLocation:
    """Return the work tree that contains `start`; without git the directory itself.

    Raises Refused for a broken repository and inside a bare one: files of a git dir are never merged as files.
    """
    folder = os.path.realpath(start)
    if not os.path.isdir(folder):
        raise NoDirectory(path=start)
    top = folder
    while True:
        git = f"{top}/.git"
        if os.path.lexists(git):
            return SessionLocation(top, _read_dot_git(top, git))
        if os.path.basename(top) != ".git":
            refuse_bare(top)
        if top == "/":
            return SessionLocation(folder, None)
        top = os.path.dirname(top)


def find_git_dir(root: str) -> WorkTreeGitDir | None:
    """Return the git dir of a work tree's top directory, None for any other directory."""
    return _read_dot_git(root, f"{root}/.git") if os.path.lexists(f"{root}/.git") else None


def refuse_bare(path: str) -> None:
    """Raise Refused for a git dir, by git's criteria (setup.c, is_git_directory)."""
    if os.path.lexists(f"{path}/HEAD") and all(os.path.isdir(f"{path}/{name}") for name in ("objects", "refs")):
        hint = "create a work tree: git worktree add DIR"
        raise Refused(message=f"{path} is a bare repository; an agent needs a work tree", hint=hint)


def refuse_embedded_git_dir(location: SessionLocation) -> None:
    """Raise Refused for a git dir that lies in its root as ordinary files, since no private copy of it is possible."""
    git = location.git
    if git is None:
        return
    for folder in (git.folder, git.common):
        if not git.inside and is_below(folder, location.root):
            message = f"the git dir {folder} is inside {location.root}, where the agent could change its files"
            raise Refused(message=message, hint="use a work tree (git worktree add), or move it: git init --separate-git-dir=DIR")


def has_reftable(git_dir: str) -> bool:
    """Return whether the refs of a git dir are in a reftable; its HEAD file is then a placeholder."""
    return os.path.lexists(f"{git_dir}/reftable")


def _read_dot_git(top: str, path: str) -> WorkTreeGitDir | None:
    if os.path.isdir(path) and not os.path.islink(path):
        return WorkTreeGitDir(path, path, inside=True) if os.path.lexists(f"{path}/HEAD") else None
    if os.path.islink(path):
        folder = os.path.realpath(path)
    else:
        line = _first_line(path)
        if not line.startswith("gitdir:"):
            raise Refused(message=f"{path} is neither a git directory nor a link to one", hint="repair or remove it")
        folder = os.path.normpath(os.path.join(top, line.removeprefix("gitdir:").strip()))
    if not os.path.isdir(folder):
        raise Refused(message=f"{path} points to {folder}, which does not exist", hint="git worktree repair")
    common = _first_line(f"{folder}/commondir")
    shared = os.path.normpath(os.path.join(folder, common)) if common else folder
    return WorkTreeGitDir(folder, shared, inside=False)


def _first_line(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    data = os.read(fd, 8192)
    os.close(fd)
    return os.fsdecode(data).split("\n", 1)[0].strip()


def git_environment(environ: dict[str, str]) -> dict[str, str]:
    """Return the environment of every git process on the host."""
    env = {name: environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in environ}
    return env | {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
    }


class StartedGit(Value):
    """A running git process, which works in parallel until its output is read."""

    pid: int
    read_end: int


def start_git(program: str, folder: str, args: tuple[str, ...], environ: dict[str, str]) -> StartedGit:
    """Start git in `folder`; `finish_git` reads its output."""
    read_end, write_end = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, write_end, 1),
        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
    ]
    argv = ("git", "-C", folder, *SAFE_OPTIONS, *args)
    debug.print_command(argv)
    try:
        pid = os.posix_spawn(program, argv, git_environment(environ), file_actions=actions)
    finally:
        os.close(write_end)
    return StartedGit(pid, read_end)


def finish_git(process: StartedGit) -> tuple[int, bytes]:
    """Wait for a started git; return its exit code and output."""
    data = streams.read_to_end(process.read_end)
    _, status = os.waitpid(process.pid, 0)
    return os.waitstatus_to_exitcode(status), data


def run_git(program: str, folder: str, args: tuple[str, ...], stdin: bytes, environ: dict[str, str]) -> tuple[int, bytes]:
    """Run git in `folder` with `stdin`; return its exit code and output."""
    import subprocess  # not imported before an agent starts

    argv = ("git", "-C", folder, *SAFE_OPTIONS, *args)
    debug.print_command(argv)
    process = subprocess.run(
        argv, executable=program, input=stdin, env=git_environment(environ), capture_output=True, check=False
    )
    return process.returncode, process.stdout


def find_disk_error(error_output: bytes) -> int:
    """Return ENOSPC or EDQUOT if git reported it, else 0; `git_environment` sets git's language."""
    for line in error_output.splitlines():
        for ending, number in _DISK_FULL_ENDINGS.items():
            if line.rstrip(b". ").endswith(ending):
                return number
    return 0


def last_error_line(error_output: bytes) -> str:
    """Return the last line of a program's error messages, or the line before if the last one is a generic fsck failure."""
    lines = error_output.decode("utf-8", "replace").strip().splitlines()
    if len(lines) > 1 and lines[-1].startswith("fatal: fsck error"):
        return lines[-2].removeprefix("error: ")
    return lines[-1] if lines else "no reason given"
