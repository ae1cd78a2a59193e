"""Where the repository is and what git says of it. Only the user's own git dir is ever opened here."""

import os

from agent_dev import trace as debug
from agent_dev.errors import Refused
from agent_dev.sandbox.plan import is_below
from agent_dev.value import Value

# Plumbing only, with everything switched off that could start a program of the repository's.
SAFE = (
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


class Git(Value):
    """A work tree's git dir. `common` is what a linked work tree shares; `inside` whether it lies in the root itself."""

    folder: str
    common: str
    inside: bool

    @property
    def is_linked(self) -> bool:
        """Whether this is a linked work tree."""
        return self.folder != self.common


class Place(Value):
    """Where a session works: the root (a work tree's top, or the directory itself) and its git dir, if any."""

    root: str
    git: Git | None


def absolute(path: str) -> str:
    """Return `path` seen from the current directory. Raises Refused when that was removed."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        hint = "cd to one that is there, or name one with -C"
        raise Refused(message="the current directory does not exist any more", hint=hint) from None


def find(start: str) -> Place:
    """Return the work tree that `start` lies in; without git the directory itself.

    Raises Refused for a broken one, and in a bare repository: no file of a git dir is ever merged as a file.
    """
    folder = os.path.realpath(start)
    if not os.path.isdir(folder):
        raise Refused(message=f"{start} is not a directory")
    top = folder
    while True:
        git = f"{top}/.git"
        if os.path.lexists(git):
            return Place(top, _git_at(top, git))
        if os.path.basename(top) != ".git":
            refuse_git_dir(top)
        if top == "/":
            return Place(folder, None)
        top = os.path.dirname(top)


def git_of(root: str) -> Git | None:
    """Return the git dir of a directory that is a work tree's top, None for any other."""
    return _git_at(root, f"{root}/.git") if os.path.lexists(f"{root}/.git") else None


def refuse_git_dir(path: str) -> None:
    """Raise Refused for what git takes for a git dir, by what git looks for (setup.c, is_git_directory)."""
    if os.path.lexists(f"{path}/HEAD") and all(os.path.isdir(f"{path}/{name}") for name in ("objects", "refs")):
        hint = "git worktree add DIR makes a work tree of it"
        raise Refused(message=f"{path} is a bare repository, and agents work in work trees", hint=hint)


def refuse_kind(place: Place) -> None:
    """Raise Refused for a repository that has no private twin: one that is part of its root."""
    git = place.git
    if git is None:
        return
    for folder in (git.folder, git.common):
        if not git.inside and is_below(folder, place.root):
            message = f"the git dir {folder} lies in {place.root}, as files that an agent could change"
            raise Refused(message=message, hint="work in a work tree of it, or move it with git init --separate-git-dir=DIR")


def has_reftable(git_dir: str) -> bool:
    """Whether the refs of a git dir are in a reftable, and its HEAD is nothing to be read."""
    return os.path.lexists(f"{git_dir}/reftable")


def _git_at(top: str, path: str) -> Git | None:
    if os.path.isdir(path) and not os.path.islink(path):
        return Git(path, path, inside=True) if os.path.lexists(f"{path}/HEAD") else None
    if os.path.islink(path):
        folder = os.path.realpath(path)
    else:
        line = _first_line(path)
        if not line.startswith("gitdir:"):
            raise Refused(message=f"{path} is neither a git directory nor a link to one", hint="mend or remove it")
        folder = os.path.normpath(os.path.join(top, line.removeprefix("gitdir:").strip()))
    if not os.path.isdir(folder):
        raise Refused(message=f"{path} points to {folder}, which does not exist", hint="git worktree repair")
    common = _first_line(f"{folder}/commondir")
    shared = os.path.normpath(os.path.join(folder, common)) if common else folder
    return Git(folder, shared, inside=False)


def _first_line(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    data = os.read(fd, 8192)
    os.close(fd)
    return os.fsdecode(data).split("\n", 1)[0].strip()


def environment(environ: dict[str, str]) -> dict[str, str]:
    """Return the environment of every git that runs on the host."""
    kept = {name: environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in environ}
    return kept | {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
    }


class Asked(Value):
    """A git that was started and whose answer is read later, so that it runs beside other work."""

    pid: int
    answer: int


def ask(program: str, place: str, words: tuple[str, ...], environ: dict[str, str]) -> Asked:
    """Start git in `place` with stdout read later by `answer`."""
    answer, w = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, w, 1),
        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
    ]
    argv = ("git", "-C", place, *SAFE, *words)
    debug.show(argv)
    try:
        pid = os.posix_spawn(program, argv, environment(environ), file_actions=actions)
    finally:
        os.close(w)
    return Asked(pid, answer)


def answer(asked: Asked) -> tuple[int, bytes]:
    """Return the exit code and the output of a git that was asked."""
    data = b""
    while piece := os.read(asked.answer, 1 << 16):
        data += piece
    os.close(asked.answer)
    _, status = os.waitpid(asked.pid, 0)
    return os.waitstatus_to_exitcode(status), data


def tell(program: str, place: str, words: tuple[str, ...], question: bytes, environ: dict[str, str]) -> tuple[int, bytes]:
    """Run git in `place` with `question` on its stdin; return its exit code and output."""
    import subprocess  # never before an agent runs

    argv = ("git", "-C", place, *SAFE, *words)
    debug.show(argv)
    done = subprocess.run(argv, executable=program, input=question, env=environment(environ), capture_output=True, check=False)
    return done.returncode, done.stdout


def last_line(said: bytes) -> str:
    """Return the last line of what a program complained of; where that only says that a check failed, the line before."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    if len(lines) > 1 and lines[-1].startswith("fatal: fsck error"):
        return lines[-2].removeprefix("error: ")
    return lines[-1] if lines else "no reason given"
