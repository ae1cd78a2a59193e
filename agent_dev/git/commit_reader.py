"""Reader for commits and the files they change."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_dev.errors import CommandFailed
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import (
    ParsedCommit,
    TreeChange,
    TreeCopy,
    parse_commit,
    parse_copies,
    parse_diff,
    parse_renames,
)
from agent_dev.quick_dataclass import replace

_Rows = list[list[str]]  # commit ids, each with its parents if requested
_Files = dict[str, tuple[TreeChange, ...]]


def read_commits(repo: BareRepository, ids: list[str]) -> tuple[ParsedCommit, ...]:
    """Parse the commits with these ids. Raises CommandFailed for one that does not match its id."""
    with _start_read(repo, ids) as finish:
        return finish()


@contextmanager
def _start_read(repo: BareRepository, ids: list[str]) -> Iterator[Callable[[], tuple[ParsedCommit, ...]]]:
    """Start `git cat-file`; yield a function that waits for it and returns the commits."""
    if not ids:
        yield tuple
        return
    with repo.start("cat-file", "--batch", "--buffer", stdin="".join(f"{oid}\n" for oid in ids).encode()) as finish:

        def commits() -> tuple[ParsedCommit, ...]:
            code, output, reason = finish()
            if code:
                raise CommandFailed(program="git cat-file", reason=reason)
            return _parse(output, ids)

        yield commits


def _parse(data: bytes, ids: list[str]) -> tuple[ParsedCommit, ...]:
    found, position = [], 0
    for oid in ids:
        end = data.find(b"\n", position)
        fields = data[position:end].split(b" ")
        if end < 0 or len(fields) != 3 or fields[1] != b"commit":
            raise CommandFailed(program="git cat-file", reason=f"{oid} is not a commit")
        size = int(fields[2])
        body, position = data[end + 1 : end + 1 + size], end + size + 2
        if commit_id(body, is_sha256=len(oid) == 64) != oid:
            raise CommandFailed(program="git cat-file", reason=f"{oid} does not match its object id")
        found.append(parse_commit(oid, body))
    return tuple(found)


def commit_id(body: bytes, *, is_sha256: bool) -> str:
    """Return the object id of a commit."""
    kind = hashlib.sha256 if is_sha256 else hashlib.sha1
    return kind(b"commit %d\0" % len(body) + body, usedforsecurity=False).hexdigest()


def add_changed_files(repo: BareRepository, commits: tuple[ParsedCommit, ...]) -> tuple[ParsedCommit, ...]:
    """Return the commits with their changes against the first parent; none where git cannot compare them."""
    with _start_diff(repo, [[one.id, *one.parents] for one in commits]) as finish:
        return _add_files(commits, finish())


def find_renames(repo: BareRepository, commits: tuple[ParsedCommit, ...], similarity: int) -> dict[str, dict[bytes, bytes]]:
    """Return the renamed files of commits, as git finds them: by commit id, old paths by new ones. `similarity`: in percent."""
    rows = [[one.id, *one.parents[:1]] for one in commits if {"A", "D"} <= {file.status for file in one.changed_files}]
    if not rows or not similarity:
        return {}
    stdin = "".join(" ".join(row) + "\n" for row in rows)
    args = ("diff-tree", "--stdin", "-r", "--root", "-z", "--raw", f"-M{similarity}%", "--diff-filter=R", "--no-abbrev")
    with repo.start(*args, stdin=stdin.encode()) as finish:
        code, output, _ = finish()
    return parse_renames(output) if not code else {}


def find_copies(repo: BareRepository, commits: tuple[ParsedCommit, ...]) -> dict[str, tuple[TreeCopy, ...]]:
    """Return the new files of commits that are identical to a file of the first parent, by commit id."""
    rows = [[one.id, *one.parents[:1]] for one in commits if one.parents]
    if not rows:
        return {}
    stdin = "".join(" ".join(row) + "\n" for row in rows)
    args = ("diff-tree", "--stdin", "-r", "-z", "--raw", "-C100%", "--find-copies-harder", "--diff-filter=C", "--no-abbrev")
    with repo.start(*args, stdin=stdin.encode()) as finish:
        code, output, _ = finish()
    return parse_copies(output) if not code else {}


def _add_files(commits: tuple[ParsedCommit, ...], files: _Files) -> tuple[ParsedCommit, ...]:
    return tuple(replace(one, changed_files=files.get(one.id, ())) for one in commits)


@contextmanager
def _start_diff(repo: BareRepository, rows: _Rows) -> Iterator[Callable[[], _Files]]:
    """Start `git diff-tree` of commits against their first parents; yield a function that waits for the changes."""
    if not rows:
        yield dict
        return
    stdin = "".join(" ".join(row[:2]) + "\n" for row in rows)
    args = ("diff-tree", "--stdin", "-r", "--root", "-z", "--raw", "--no-renames", "--no-abbrev")
    with repo.start(*args, stdin=stdin.encode()) as finish:

        def changes() -> _Files:
            code, output, _ = finish()
            return parse_diff(output) if not code else {}

        yield changes
