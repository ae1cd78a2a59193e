"""The git work trees that `--worktree NAME` creates next to a repository, and their removal when no work is left in them.

A file in git's own directory of a work tree marks it as ours, and names its branch and the commit at which that began.
"""

import os

from agent_dev.errors import Refused, UsageError
from agent_dev.fs import checksummed_json
from agent_dev.fs.read_regular import read_regular_file
from agent_dev.git import repository
from agent_dev.git.repository import SessionLocation, WorkTreeGitDir
from agent_dev.linux import programs
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import sessions, store

_MARK, _LARGEST = "agent-dev", 4096


@dataclass(frozen=True, slots=True)
class MadeWorkTree:
    """A work tree of ours: its path, its branch, and the first commit of a branch created with it ("": it existed before)."""

    path: str
    branch: str
    start: str


@dataclass(frozen=True, slots=True)
class _Git:
    """The user's git in one directory."""

    program: str
    folder: str
    environ: dict[str, str]

    def run(self, *args: str) -> tuple[int, str]:
        """Run git; return its exit code and output."""
        code, output = repository.run_git(self.program, self.folder, args, b"", self.environ)
        return code, os.fsdecode(output).strip()


def make_work_tree(location: SessionLocation, name: str, environ: dict[str, str]) -> tuple[MadeWorkTree, bool]:
    """Return the work tree with a name next to the repository, and whether it is new. Raises AgentDevError if git refuses it."""
    if location.git is None:
        raise UsageError(message=f"--worktree: {location.root} is not in a git repository", hint="run without --worktree")
    for known in list_made(location.git):
        if known.branch == name:
            if not os.path.isdir(known.path):
                raise Refused(message=f"--worktree {name}: {known.path} is missing", hint="if you deleted it: git worktree prune")
            return known, False
    path = f"{location.root.rstrip('/')}.{name}"
    git = _find_git(location.root, environ)
    if os.path.lexists(path):
        raise Refused(message=f"--worktree {name}: {path} exists", hint="use another name")
    exists = git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{name}")[0] == 0
    what = (path, name) if exists else ("-b", name, path, "HEAD")
    code, _ = git.run("worktree", "add", "--quiet", *what)
    made = repository.find_git_dir(path) if code == 0 else None
    if made is None:
        hint = f"git -C {location.root} worktree add {' '.join(what)}"
        raise Refused(message=f"--worktree {name}: git cannot create {path}", hint=f"see why: {hint}")
    start = "" if exists else git.run("rev-parse", f"refs/heads/{name}")[1]
    with open(f"{made.folder}/{_MARK}", "wb") as file:
        file.write(checksummed_json.dumps({"path": path, "branch": name, "start": start}))
    return MadeWorkTree(path, name, start), True


def list_made(git: WorkTreeGitDir) -> tuple[MadeWorkTree, ...]:
    """Return the work trees of a repository that were created for sessions."""
    try:
        names = sorted(os.listdir(f"{git.common}/worktrees"))
    except OSError:
        return ()
    found = []
    for name in names:
        data = read_regular_file(f"{git.common}/worktrees/{name}/{_MARK}", _LARGEST)
        try:
            row = checksummed_json.loads(data)
            found.append(MadeWorkTree(str(row["path"]), str(row["branch"]), str(row["start"])))
        except (ValueError, KeyError):
            continue  # not ours
    return tuple(found)


def remove_unused(
    session_store: store.Store, git: WorkTreeGitDir, environ: dict[str, str], *, is_dry: bool = False
) -> tuple[MadeWorkTree, ...]:
    """Remove the work trees without an open session and without work in them; return those removed."""
    made = list_made(git)
    if not made:
        return ()
    found = sessions.list_sessions(session_store)
    in_use = {path for one in found if one.state in sessions.OPEN for path in (*one.record["roots"], one.record["root"])}
    if any(one.problem for one in found):
        return ()  # it is unknown where a damaged session ran
    return tuple(one for one in made if one.path not in in_use and _remove_clean(one, git, environ, is_dry=is_dry))


def _remove_clean(one: MadeWorkTree, git: WorkTreeGitDir, environ: dict[str, str], *, is_dry: bool) -> bool:
    """Remove a work tree without changed, new or ignored files; its branch stays if it has commits of its own."""
    if not os.path.isdir(one.path):
        return False
    inside = _find_git(one.path, environ)
    status = inside.run("status", "--porcelain", "--untracked-files=all", "--ignored")
    head = inside.run("symbolic-ref", "--quiet", "HEAD")
    if status != (0, "") or head != (0, f"refs/heads/{one.branch}") or _is_busy(inside):
        return False
    if is_dry:
        return True
    outside = _Git(inside.program, git.common, environ)
    if outside.run("worktree", "remove", one.path)[0] != 0:
        return False
    if one.start:
        outside.run("update-ref", "-d", f"refs/heads/{one.branch}", one.start)  # only if the branch is still at this commit
    return True


def _is_busy(git: _Git) -> bool:
    """Return whether a merge, rebase or the like is in progress."""
    folder = git.run("rev-parse", "--absolute-git-dir")[1]
    names = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply")
    return any(os.path.lexists(f"{folder}/{name}") for name in names)


def _find_git(folder: str, environ: dict[str, str]) -> _Git:
    program = programs.find_program("git", environ, (folder,))
    if program is None:
        raise Refused(message="--worktree needs git", hint="install git")
    return _Git(program, folder, environ)
