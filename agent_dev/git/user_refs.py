"""Access to the user's refs; updates are atomic, by compare-and-swap (git: Documentation/git-update-ref.txt)."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NoReturn

from agent_dev import debug
from agent_dev.errors import CannotMerge
from agent_dev.fs import durable
from agent_dev.git import repository
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.git.updates import GitUpdate, RefUpdate

_KEPT_VARIABLES = ("PATH", "HOME", "XDG_CONFIG_HOME", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL")


class RefMovedError(Exception):
    """A ref does not have the expected value; `name` is its name."""

    def __init__(self, name: str, reason: str = "it was updated by another process") -> None:
        super().__init__(reason)
        self.name = name


class RefsTornError(Exception):
    """The refs of one repository have moved, and those of another one have not."""


class UserGit:
    """The user's own git dir, for plumbing commands that run no hooks or configured programs."""

    def __init__(self, folder: str, program: str, environ: dict[str, str]) -> None:
        self.folder, self.program = folder, program
        self.environ = tuple((name, environ[name]) for name in _KEPT_VARIABLES if name in environ)

    def run(self, *args: str, stdin: bytes = b"", fds: tuple[int, ...] = ()) -> tuple[int, bytes, str]:
        """Run git; return its exit code, its output, and the last line of its error messages."""
        argv = ("git", "--git-dir", self.folder, *repository.SAFE_OPTIONS, *args)
        debug.print_command(argv)
        process = subprocess.run(
            argv,
            executable=self.program,
            input=stdin,
            env=self._git_environ(),
            capture_output=True,
            check=False,
            cwd="/",
            pass_fds=fds,
        )
        return process.returncode, process.stdout, repository.last_error_line(process.stderr)

    def start(self, *args: str, fds: tuple[int, ...] = ()) -> "subprocess.Popen[bytes]":
        """Start git with pipes for its input, its output and its messages."""
        argv = ("git", "--git-dir", self.folder, *repository.SAFE_OPTIONS, *args)
        debug.print_command(argv)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            argv,
            executable=self.program,
            env=self._git_environ(),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd="/",
            pass_fds=fds,
        )

    def _git_environ(self) -> dict[str, str]:
        environ = dict(self.environ)
        names = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
        return repository.git_environment(environ) | names

    def read_refs(self, *names: str) -> dict[str, str]:
        """Return the ids of refs by name; missing refs are left out."""
        refs = self._list_refs(*names)
        return {name: value for name, value in refs.items() if name in names} if names else refs

    def read_branches(self) -> dict[str, str]:
        """Return the commits of all branches by their refs' names."""
        return self._list_refs("refs/heads/")

    def _list_refs(self, *patterns: str) -> dict[str, str]:
        _, output, _ = self.run("for-each-ref", "--format=%(objectname) %(refname)", *patterns)
        rows = (line.decode("utf-8", "surrogateescape").partition(" ") for line in output.split(b"\n") if line)
        return {name: value for value, _, name in rows if parse_ref(value.encode())}

    def read_head_branch(self) -> str:
        """Return the branch that HEAD names, "" if it is detached."""
        code, output, _ = self.run("symbolic-ref", "-q", "HEAD")
        return output.decode("utf-8", "surrogateescape").strip() if not code else ""

    def is_in_progress(self, name: str) -> bool:
        """Return whether a marker of an operation in progress exists, as a file or as a ref in a reftable."""
        is_ref = name.endswith("_HEAD") and repository.has_reftable(self.folder)
        return os.path.lexists(f"{self.folder}/{name}") or (is_ref and not self.run("rev-parse", "-q", "--verify", name)[0])

    def find_object_store(self) -> str:
        """Return the path of its object store."""
        _, output, _ = self.run("rev-parse", "--path-format=absolute", "--git-path", "objects")
        return os.fsdecode(output.rstrip(b"\n"))

    def read_config(self) -> dict[str, str]:
        """Return the effective configuration: the last value of each key."""
        _, output, _ = self.run("config", "--list", "-z", "--includes")
        rows = (item.partition(b"\n") for item in output.split(b"\0") if item)
        return {os.fsdecode(key): os.fsdecode(value) if has_value else "true" for key, has_value, value in rows}


def _open(git: GitUpdate) -> UserGit:
    return UserGit(git.folder, git.program, dict(git.environ))


def _updates(git: GitUpdate, *, is_forward: bool) -> tuple[RefUpdate, ...]:
    return git.refs if is_forward else tuple(one.reversed() for one in git.refs)


def update_refs(sides: tuple[GitUpdate, ...], merge_id: str, lock: int, *, is_forward: bool) -> None:
    """Update the refs of a merge in all its repositories, durable on return.

    Git locks and checks the refs of every repository before the first one is updated. Raises RefMovedError if one has another
    value, or OSError; none is updated then. Raises RefsTornError if a later repository failed all the same, and an earlier one
    could not be reverted. Git inherits `lock`: if we crash, the next process waits until git exits.
    """
    label = merge_id if is_forward else f"undo {merge_id}"
    wanted = [(_open(git), updates) for git in sides if (updates := _updates(git, is_forward=is_forward))]
    done: list[tuple[UserGit, tuple[RefUpdate, ...]]] = []
    with ExitStack() as stack:
        commits = [stack.enter_context(_prepared(user, updates, label, lock)) for user, updates in wanted]
        try:
            for commit, one in zip(commits, wanted, strict=True):
                durable.announce_ref_update(tuple(update.name for update in one[1]))
                commit()
                done.append(one)
        except (RefMovedError, OSError) as error:
            _revert(done, label, lock, error)
            raise


def _revert(done: list[tuple[UserGit, tuple[RefUpdate, ...]]], label: str, lock: int, cause: Exception) -> None:
    """Move the refs of some repositories back. Raises RefsTornError if that fails."""
    for user, updates in done:
        try:
            _update_refs(user, tuple(one.reversed() for one in updates), f"{label} failed", lock)
        except (RefMovedError, OSError) as error:
            raise RefsTornError(f"{cause}; {user.folder}: {error}") from error


def _update_refs(user: UserGit, updates: tuple[RefUpdate, ...], label: str, lock: int) -> None:
    with _prepared(user, updates, label, lock) as commit:
        commit()


@contextmanager
def _prepared(user: UserGit, updates: tuple[RefUpdate, ...], label: str, lock: int) -> Iterator[Callable[[], None]]:
    """Let git lock and check refs; yield a function that updates them. Without a call of it, git releases its locks at the end.

    The end may also be that of this process, which closes git's input.
    """
    zero = "0" * max(len(one.old or one.new) for one in updates)
    rows = "".join(f"update {one.name}\0{one.new or zero}\0{one.old or zero}\0" for one in updates)
    args = ("-c", "core.fsync=all", "update-ref", "-z", "--stdin", "-m", f"agent-dev: merge {label}")
    process = user.start(*args, fds=(lock,) if lock >= 0 else ())
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None  # noqa: S101  (pipes, as `start` says)
    assert stdout is not None  # noqa: S101
    assert stderr is not None  # noqa: S101

    def send(text: str, answers: int) -> None:
        try:
            stdin.write(text.encode("utf-8", "surrogateescape"))
            stdin.flush()
        except BrokenPipeError:
            pass  # git has failed and says why
        if not all(stdout.readline().endswith(b": ok\n") for _ in range(answers)):
            _raise_failure(user, updates, repository.last_error_line(stderr.read()))

    try:
        send(f"start\0{rows}prepare\0", 2)
        yield lambda: send("commit\0", 1)
    finally:
        with suppress(BrokenPipeError):
            stdin.close()
        process.wait()
        stdout.close()
        stderr.close()


def _raise_failure(user: UserGit, updates: tuple[RefUpdate, ...], reason: str) -> NoReturn:
    _check_disk_space(user, reason)
    values = user.read_refs(*(one.name for one in updates))
    name = next((one.name for one in updates if values.get(one.name, "") != one.old), "")
    raise RefMovedError(name or updates[0].name, "it was updated by another process" if name else reason)


def create_kept_refs(user: UserGit, refs: dict[str, str]) -> None:
    """Create refs of ours for otherwise unreachable objects, durable on return. Raises OSError if git fails."""
    durable.announce_ref_update(tuple(refs))
    stdin = "".join(f"update {name}\0{oid}\0\0" for name, oid in refs.items())
    code, _, reason = user.run("-c", "core.fsync=all", "update-ref", "-z", "--stdin", stdin=stdin.encode())
    if code:
        _check_disk_space(user, reason)
        raise OSError(errno.EIO, reason, user.folder)


def _check_disk_space(user: UserGit, reason: str) -> None:
    """Raise OSError if git failed because the disk is full: then no ref was updated, and none by another process."""
    number = repository.find_disk_error(reason.encode("utf-8", "replace"))
    if number:
        raise OSError(number, os.strerror(number), user.folder)


def finish_ref_updates(git: GitUpdate, merge_id: str, lock: int, *, is_forward: bool) -> None:
    """Update the refs that a killed git did not reach; a ref that was changed since then stays."""
    user = _open(git)
    values = user.read_refs(*(one.name for one in git.refs))
    rest = tuple(one for one in _updates(git, is_forward=is_forward) if values.get(one.name, "") == one.old)
    if rest:
        durable.announce_ref_update(tuple(one.name for one in rest))
        try:
            _update_refs(user, rest, merge_id, lock)
        except RefMovedError:
            return


def find_unexpected_refs(git: GitUpdate, *, is_forward: bool) -> tuple[str, ...]:
    """Return the refs that do not have the expected old value."""
    values = _open(git).read_refs(*(one.name for one in git.refs))
    return tuple(one.name for one in _updates(git, is_forward=is_forward) if values.get(one.name, "") != one.old)


def have_refs_moved(git: GitUpdate, *, is_forward: bool) -> bool:
    """Return whether an interrupted merge had updated its refs: one has its new value, or was moved forward from it."""
    user = _open(git)
    values = user.read_refs(*(one.name for one in git.refs))
    for one in _updates(git, is_forward=is_forward):
        value = values.get(one.name, "")
        if value == one.old:
            continue
        if value == one.new or (value and one.new and not user.run("merge-base", "--is-ancestor", one.new, value)[0]):
            return is_forward or value == one.new or not _is_ancestor(user, one.old, value)
    return False


def _is_ancestor(user: UserGit, one: str, other: str) -> bool:
    return bool(one) and not user.run("merge-base", "--is-ancestor", one, other)[0]


def require_head(git: GitUpdate) -> None:
    """Raise CannotMerge unless HEAD names the updated branch; the index lock prevents another checkout."""
    names = {one.name for one in git.refs}
    if _open(git).read_head_branch() not in names:
        raise CannotMerge(path=f"{git.folder}/HEAD", reason="another branch was checked out; nothing was changed")
