"""The linked work trees that an agent created with git, in the repository or in its home, and their uncommitted files.

Git never runs there. The agent's files are read without following symlinks, and compared with the commit by their object ids.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice

from agent_dev.agent_git import current_refs, refs
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.fs import walk
from agent_dev.fs.entry import FileType, WalkedEntry
from agent_dev.fs.read_regular import are_real_directories, read_regular_file
from agent_dev.git import check_ignore
from agent_dev.git.formats.index_format import IndexEntry, IndexUnreadableError, parse_index
from agent_dev.linux import streams, syscalls
from agent_dev.paths import is_below
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.session import store

_HEADS, _SMALL, _LARGEST, _MAX_FILES = "refs/heads/", 4096, 64 << 20, 50_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GITLINK, _SHA1_SIZE = b"160000 ", 20


@dataclass(frozen=True, slots=True)
class AgentWorkTree:
    """A work tree: its repository, git's name for it, its path inside and on the host, and its branch ("": HEAD is detached)."""

    repository: AgentRepository
    name: str
    path: str
    top: str  # the upper layer or the agent home that contains it
    below: str  # its path there
    branch: str
    commit: str

    def path_in(self, root: str) -> str:
        """Return the path, relative to a root if it is there."""
        return self.path.removeprefix(f"{root.rstrip('/')}/")


def find_work_trees(
    session: store.Session, record: store.Record, home: str, environ: dict[str, str]
) -> tuple[AgentWorkTree, ...]:
    """Return the work trees that the agent made in the repositories of a session, and that still exist.

    `home`: the path of the user's home, where the sandbox has the agent home. Raises CommandFailed if the refs cannot be read.
    """
    sources = list_repositories(session, record)
    return tuple(chain.from_iterable(_find_in_repository(source, home, environ) for source in sources))


def may_have_made(session: store.Session, record: store.Record) -> bool:
    """Return whether the agent may have made a work tree; a quick check."""
    return any(_own_names(source) for source in list_repositories(session, record))


def has_work(tree: AgentWorkTree, environ: dict[str, str]) -> bool:
    """Return whether a work tree has a commit of the agent, or uncommitted files. Raises CommandFailed, OSError."""
    return tree.commit not in refs.read_initial_refs(tree.repository).values() or bool(find_uncommitted(tree, environ))


def _own_names(source: AgentRepository) -> list[str]:
    """Return git's names of the work trees that a repository of the user does not have."""
    folder = source.private_dir
    if not are_real_directories(folder, "worktrees"):
        return []
    names = sorted(os.listdir(f"{folder}/worktrees"))
    return [name for name in names if not os.path.lexists(f"{source.common}/worktrees/{name}")]


def _find_in_repository(source: AgentRepository, home: str, environ: dict[str, str]) -> tuple[AgentWorkTree, ...]:
    folders = (f"{source.private_dir}/worktrees/{name}" for name in _own_names(source))
    found = [one for folder in folders if (one := _read(source, home, folder)) is not None]
    if not found:
        return ()
    values = current_refs.read_refs(source, environ)
    return tuple(replace(one, commit=values.get(_HEADS + one.branch, "")) if one.branch else one for one in found)


def _read(source: AgentRepository, home: str, folder: str) -> AgentWorkTree | None:
    if not are_real_directories(folder):
        return None
    git_file = os.fsdecode(read_regular_file(f"{folder}/gitdir", _SMALL).rstrip(b"\n"))
    path = os.path.dirname(os.path.normpath(git_file))
    session, record = source.session, source.record
    tops = [(root, session.root(number, root).upper) for number, root in enumerate(record["roots"])]
    shown, top = next((pair for pair in (*tops, (home, record["agent_home"])) if is_below(path, pair[0])), ("", ""))
    below = path[len(shown.rstrip("/")) + 1 :]
    if not shown or not below or not _is_directory(top, below):
        return None
    head = read_regular_file(f"{folder}/HEAD", _SMALL).decode("utf-8", "replace").strip()
    ref = head.removeprefix("ref: ") if head.startswith("ref: ") else ""
    return AgentWorkTree(source, os.path.basename(folder), path, top, below, ref.removeprefix(_HEADS), "" if ref else head)


def _is_directory(top: str, below: str) -> bool:
    with suppress(OSError), _opened(top, below):
        return True
    return False


@contextmanager
def _opened(top: str, below: str) -> Iterator[int]:
    """Open a directory below an upper or a home, without following symlinks. Raises OSError."""
    start = os.open(top, _FOLDER)
    try:
        fd = syscalls.open_below(start, os.fsencode(below), _FOLDER)
    finally:
        os.close(start)
    try:
        yield fd
    finally:
        os.close(fd)


def find_uncommitted(tree: AgentWorkTree, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the files that differ from the work tree's commit, sorted, without ignored ones. Raises CommandFailed, OSError."""
    from agent_dev.agent_git import commits  # not needed to find work trees after a run

    with commits.open_agent_objects(tree.repository, environ) as repo:
        output = repo.check_output("ls-tree", "-r", "-z", "--full-tree", tree.commit) if tree.commit else b""
    rows = (row.partition(b"\t") for row in output.split(b"\0") if row)
    committed = {path: head.split(b" ")[2].decode("ascii") for head, _, path in rows if not head.startswith(_GITLINK)}
    index = _read_index(
        f"{tree.repository.private_dir}/worktrees/{tree.name}/index", len(next(iter(committed.values()), "")) // 2 or 20
    )
    with _opened(tree.top, tree.below) as top:
        found = list(islice(walk.walk(f"/proc/self/fd/{top}", skip=(b".git",), attributes=False), _MAX_FILES))
        files = {one.path: one for one in found if one.entry.type in (FileType.FILE, FileType.SYMLINK)}
        changed = {path for path, one in files.items() if committed.get(path) != _object_id(top, one, index)}
    new = sorted(changed - committed.keys())
    record = tree.repository.record
    ignored = check_ignore.find_ignored(tree.repository.path, new, store.untrusted_paths(record), environ)
    missing = committed.keys() - files.keys() if len(found) < _MAX_FILES else set()
    return tuple(sorted(map(os.fsdecode, (changed - ignored) | missing)))


def _read_index(path: str, id_size: int) -> dict[bytes, IndexEntry]:
    try:
        return {entry.path: entry for entry in parse_index(read_regular_file(path, _LARGEST), id_size)}
    except IndexUnreadableError:
        return {}


def _object_id(top: int, found: WalkedEntry, index: dict[bytes, IndexEntry]) -> str:
    """Return the object id of a file: from the index if the file is unchanged since, else by its content; "" if unreadable."""
    known, entry = index.get(found.path), found.entry
    if known is not None and (known.size, known.mtime) == (entry.size & 0xFFFFFFFF, entry.mtime):
        return known.oid.hex()
    data = entry.target
    if entry.type is FileType.FILE:
        if entry.size > _LARGEST:
            return ""
        try:
            data = streams.read_to_end(syscalls.open_below(top, found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
        except OSError:
            return ""
    is_sha256 = known is not None and len(known.oid) > _SHA1_SIZE
    digest = hashlib.sha256 if is_sha256 else hashlib.sha1
    return digest(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
