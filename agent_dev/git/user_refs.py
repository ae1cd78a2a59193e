"""The user's refs: asked, and moved by compare-and-swap, all of them or none (git: Documentation/git-update-ref.txt)."""

import errno
import os
import subprocess

from agent_dev import trace as debug
from agent_dev.errors import CannotMerge
from agent_dev.fs import durable as disk
from agent_dev.git import repository as repo
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.merge_engine.journal import GitSide, RefMove

_KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL")


class RefMovedError(Exception):
    """A ref is not what was expected; `name` is its name."""

    def __init__(self, name: str, why: str = "it moved meanwhile") -> None:
        super().__init__(why)
        self.name = name


class UserGit:
    """The user's own git dir, for plumbing that runs no program of anybody's."""

    def __init__(self, folder: str, program: str, environ: dict[str, str]) -> None:
        self.folder, self.program = folder, program
        self.environ = tuple((name, environ[name]) for name in _KEPT if name in environ)

    def run(self, *words: str, question: bytes = b"", fds: tuple[int, ...] = ()) -> tuple[int, bytes, str]:
        """Return git's exit code, what it says, and the last line of why it failed."""
        argv = ("git", "--git-dir", self.folder, *repo.SAFE, *words)
        debug.show(argv)
        environ = dict(self.environ)
        names = {name: environ[name] for name in _KEPT if name in environ}
        done = subprocess.run(
            argv,
            executable=self.program,
            input=question,
            env=repo.environment(environ) | names,
            capture_output=True,
            check=False,
            cwd="/",
            pass_fds=fds,
        )
        return done.returncode, done.stdout, repo.last_line(done.stderr)

    def values(self, *names: str) -> dict[str, str]:
        """Return what refs lead to; those that are not there are left out."""
        _, said, _ = self.run("for-each-ref", "--format=%(objectname) %(refname)", *names)
        rows = (line.decode("utf-8", "surrogateescape").partition(" ") for line in said.split(b"\n") if line)
        every = {name: value for value, _, name in rows if parse_ref(value.encode())}
        return {name: value for name, value in every.items() if name in names} if names else every

    def head(self) -> str:
        """Return the branch that HEAD names, "" when it names none."""
        code, said, _ = self.run("symbolic-ref", "-q", "HEAD")
        return said.decode("utf-8", "surrogateescape").strip() if not code else ""

    def has_mark(self, name: str) -> bool:
        """Whether git is in the middle of what a file, or a ref where those are in a reftable, stands for."""
        is_ref = name.endswith("_HEAD") and repo.has_reftable(self.folder)
        return os.path.lexists(f"{self.folder}/{name}") or (is_ref and not self.run("rev-parse", "-q", "--verify", name)[0])

    def objects(self) -> str:
        """Return where its objects lie."""
        _, said, _ = self.run("rev-parse", "--path-format=absolute", "--git-path", "objects")
        return os.fsdecode(said.rstrip(b"\n"))

    def config(self) -> dict[str, str]:
        """Return the configuration that counts here: the last value of each key."""
        _, said, _ = self.run("config", "--list", "-z", "--includes")
        rows = (item.partition(b"\n") for item in said.split(b"\0") if item)
        return {os.fsdecode(key): os.fsdecode(value) if has_value else "true" for key, has_value, value in rows}


def _opened(git: GitSide) -> UserGit:
    return UserGit(git.folder, git.git, dict(git.environ))


def _moves(git: GitSide, *, is_forward: bool) -> tuple[RefMove, ...]:
    return git.refs if is_forward else tuple(one.reversed() for one in git.refs)


def swap(git: GitSide, merge_id: str, lock: int, *, is_forward: bool) -> None:
    """Move the refs of a merge, durable on return. Raises RefMovedError when one is not as expected; none has moved then.

    `lock` goes along: while git is at work, whoever comes after a crash of ours waits for it.
    """
    moves = _moves(git, is_forward=is_forward)
    if not moves:
        return
    disk.about_to_move_refs(tuple(one.name for one in moves))
    _swap(_opened(git), moves, merge_id if is_forward else f"undo {merge_id}", lock)


def _swap(user: UserGit, moves: tuple[RefMove, ...], what: str, lock: int) -> None:
    zero = "0" * max(len(one.old or one.new) for one in moves)
    rows = ["start\0", *(f"update {one.name}\0{one.new or zero}\0{one.old or zero}\0" for one in moves), "prepare\0", "commit\0"]
    question = "".join(rows).encode("utf-8", "surrogateescape")
    words = ("-c", "core.fsync=all", "update-ref", "-z", "--stdin", "-m", f"agent-dev: merge {what}")
    code, _, why = user.run(*words, question=question, fds=(lock,) if lock >= 0 else ())
    if code:
        now = user.values(*(one.name for one in moves))
        name = next((one.name for one in moves if now.get(one.name, "") != one.old), "")
        raise RefMovedError(name or moves[0].name, "it moved meanwhile" if name else why)


def keep(user: UserGit, names: dict[str, str]) -> None:
    """Let refs of ours lead to what nothing else leads to, durable on return. Raises OSError when git cannot."""
    disk.about_to_move_refs(tuple(names))
    question = "".join(f"update {name}\0{oid}\0\0" for name, oid in names.items())
    code, _, why = user.run("-c", "core.fsync=all", "update-ref", "-z", "--stdin", question=question.encode())
    if code:
        raise OSError(errno.EIO, why, user.folder)


def swap_rest(git: GitSide, merge_id: str, lock: int, *, is_forward: bool) -> None:
    """Move the refs that a killed git has not come to; one that has moved elsewhere since stays there."""
    user = _opened(git)
    now = user.values(*(one.name for one in git.refs))
    rest = tuple(one for one in _moves(git, is_forward=is_forward) if now.get(one.name, "") == one.old)
    if rest:
        disk.about_to_move_refs(tuple(one.name for one in rest))
        try:
            _swap(user, rest, merge_id, lock)
        except RefMovedError:
            return


def strangers(git: GitSide, *, is_forward: bool) -> tuple[str, ...]:
    """Return the refs that are not where a drive would begin."""
    now = _opened(git).values(*(one.name for one in git.refs))
    return tuple(one.name for one in _moves(git, is_forward=is_forward) if now.get(one.name, "") != one.old)


def have_moved(git: GitSide, *, is_forward: bool) -> bool:
    """Whether a drive that was cut short had moved its refs: one of them is at its end, or has gone on from there."""
    user = _opened(git)
    now = user.values(*(one.name for one in git.refs))
    for one in _moves(git, is_forward=is_forward):
        at = now.get(one.name, "")
        if at == one.old:
            continue
        if at == one.new or (at and one.new and not user.run("merge-base", "--is-ancestor", one.new, at)[0]):
            return is_forward or at == one.new or not _is_at_or_behind(user, one.old, at)
    return False


def _is_at_or_behind(user: UserGit, one: str, other: str) -> bool:
    return bool(one) and not user.run("merge-base", "--is-ancestor", one, other)[0]


def demand_head(git: GitSide) -> None:
    """Raise CannotMerge unless HEAD names the branch that is to move: with the index's lock held nobody checks out another."""
    names = {one.name for one in git.refs}
    if _opened(git).head() not in names:
        raise CannotMerge(path=f"{git.folder}/HEAD", reason="another branch was checked out meanwhile; nothing was changed")
