"""Git's view of a root at the start of a session: which files match the index, which are ignored, which are converted.

Queries every repository in the root, including nested ones and submodules, each with a non-existent index file: git then
neither reads the repository's index (this module does) nor touches the shared part of a split one. No filter, hook or
fsmonitor runs.
"""

import os
import stat
import time
from collections.abc import Iterable
from typing import NamedTuple

from agent_dev import debug
from agent_dev.errors import Refused
from agent_dev.git import config_file, repository
from agent_dev.git.formats.index_format import GITLINK, IndexEntry, IndexUnreadableError, parse_split_index
from agent_dev.git.private_copy import copy_file
from agent_dev.linux import streams
from agent_dev.quick_dataclass import dataclass, field

_MANY_REPOSITORIES = 200  # of one root; below further ones no file counts as ignored
_SECONDS = 20.0  # for one git process: a FIFO named .gitignore would block it forever
_LARGEST_INDEX = 1 << 30
# Conversions that can change bytes but not the size; line endings cannot (git/conversion.py).
_CONVERSIONS = ("filter", "ident", "working-tree-encoding")
_UNSPECIFIED, _UNSET = b"unspecified", b"unset"


class IndexOrigin(NamedTuple):
    """The index that has some entries: the number of the object store with their blobs, and its time of writing in ns."""

    store: int
    written: int

    def blob(self, entry: IndexEntry) -> str:
        """Return the content location of an entry's blob."""
        return f"@{self.store}:{entry.oid.hex()}"


TrackedFile = tuple[IndexEntry, IndexOrigin]


@dataclass(slots=True)
class GitView:
    """Git's view of one root. A walk removes from `tracked` what it reaches.

    `ignored_unknown` and `attributes_unknown`: directories below which ignored or converted files are unknown.
    """

    tracked: dict[bytes, TrackedFile] = field(default_factory=dict)
    untracked: set[bytes] = field(default_factory=set)
    converted: set[bytes] = field(default_factory=set)
    ignored_unknown: list[bytes] = field(default_factory=list)
    attributes_unknown: list[bytes] = field(default_factory=list)

    def is_ignored(self, path: bytes) -> bool:
        """Return whether git ignores a path that it does not track; paths inside a git directory count as ignored."""
        if b".git" in path and b".git" in path.split(b"/"):
            return True
        return path not in self.untracked and not _is_below(path, self.ignored_unknown)

    def is_converted(self, path: bytes) -> bool:
        """Return whether a path's blob may differ from the file on disk while its size is the same."""
        return path in self.converted or _is_below(path, self.attributes_unknown)


@dataclass(frozen=True, slots=True)
class GitQuery:
    """A query: the git program, the user's environment, a path for a copy of the index, a deadline (monotonic)."""

    program: str
    environ: dict[str, str]
    index_copy: str
    deadline: float


def query_root(root: str, query: GitQuery, stores: list[str]) -> GitView:
    """Return git's view of a root; append the object stores of its repositories to `stores`."""
    known = GitView()
    todo = [b""]
    for number, prefix in enumerate(todo):  # grows in the loop
        git = _git_at(os.path.join(root, os.fsdecode(prefix)))
        if git is None and prefix:
            known.ignored_unknown.append(prefix)  # damaged, or not a repository
        elif git is None or number >= _MANY_REPOSITORIES or time.monotonic() > query.deadline:
            known.ignored_unknown.append(prefix)
        else:
            todo += _query_repository(_Repository(root, prefix, git, query), known, stores)
    return known


@dataclass(frozen=True, slots=True)
class _Repository:
    """One of the repositories in a root; `prefix` is its path there, empty for the root's own."""

    root: str
    prefix: bytes
    git: repository.WorkTreeGitDir
    query: GitQuery

    @property
    def path(self) -> str:
        return os.path.join(self.root, os.fsdecode(self.prefix))

    def in_root(self, path: bytes) -> bytes:
        return self.prefix + b"/" + path if self.prefix else path


def _git_at(path: str) -> repository.WorkTreeGitDir | None:
    try:
        found = repository.find_location(path)
    except (Refused, OSError):
        return None
    return found.git if found.root == os.path.realpath(path) else None


def _query_repository(repo: _Repository, known: GitView, stores: list[str]) -> list[bytes]:
    """Query one repository; return the paths of the repositories below it."""
    listing = _RunningGit(repo, ("ls-files", "-o", "--exclude-standard", "-z"))
    try:
        entries, written = _read_index(repo)
    except (OSError, IndexUnreadableError):
        listing.answer()
        known.ignored_unknown.append(repo.prefix)
        return []
    objects = f"{repo.git.common}/objects"
    if objects not in stores:
        stores.append(objects)
    origin = IndexOrigin(stores.index(objects), written)
    nested = [repo.in_root(entry.path) for entry in entries if entry.mode == GITLINK]
    files = [entry for entry in entries if stat.S_ISREG(entry.mode) or stat.S_ISLNK(entry.mode)]
    known.tracked |= {repo.in_root(entry.path): (entry, origin) for entry in files}
    _record_conversions(repo, files, known)
    listed = listing.answer()
    if listed is None:
        known.ignored_unknown.append(repo.prefix)
        return [path for path in nested if os.path.lexists(os.path.join(repo.root, os.fsdecode(path), ".git"))]
    paths = [repo.in_root(path) for path in listed.split(b"\0") if path]
    known.untracked |= {path for path in paths if not path.endswith(b"/") and path not in known.tracked}
    nested += [path[:-1] for path in paths if path.endswith(b"/")]
    return [path for path in nested if os.path.lexists(os.path.join(repo.root, os.fsdecode(path), ".git"))]


def _read_index(repo: _Repository) -> tuple[list[IndexEntry], int]:
    """Return the index entries and the index's mtime. Raises OSError or IndexUnreadableError."""
    index_path = f"{repo.git.folder}/index"
    if not repo.prefix:
        _copy_index(index_path, repo.query.index_copy)
        index_path = repo.query.index_copy
    if not os.path.lexists(index_path):
        return [], 0  # a repository without a commit has none
    data, written = _read_regular(index_path)
    size = _oid_size(data, repo.git.common)
    return list(parse_split_index(data, size, lambda name: _read_regular(f"{repo.git.folder}/sharedindex.{name}")[0])), written


def _copy_index(index_path: str, copy: str) -> None:
    """Copy the index with its mtime: a new mtime could hide an edit of the same instant."""
    try:
        os.unlink(copy)
    except FileNotFoundError:
        pass
    copy_file(index_path, copy)


def _read_regular(path: str) -> tuple[bytes, int]:
    """Return a regular file's bytes and mtime. Raises OSError, or IndexUnreadableError for another type."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_INDEX:
            raise IndexUnreadableError(f"{path} is not an index")
        return file.read(), status.st_mtime_ns


def _oid_size(data: bytes, common: str) -> int:
    """Detect SHA-256 or SHA-1 by the trailing checksum; without one (index.skipHash) by the configuration."""
    import hashlib  # not needed by the launcher

    for size, kind in ((20, hashlib.sha1), (32, hashlib.sha256)):
        if kind(data[:-size], usedforsecurity=False).digest() == data[-size:]:
            return size
    if any(data[-20:]):
        raise IndexUnreadableError("its checksum is wrong")
    return 32 if config_file.is_sha256(_read_regular(f"{common}/config")[0]) else 20


def _record_conversions(repo: _Repository, files: list[IndexEntry], known: GitView) -> None:
    """Record the tracked files that have a converting attribute, and directories with unknown attributes."""
    for entry in files:
        folder, _, name = entry.path.rpartition(b"/")
        if name == b".gitattributes" and not os.path.lexists(os.path.join(repo.path, os.fsdecode(entry.path))):
            # git would read the .gitattributes from the index, but has none here
            known.attributes_unknown.append(repo.in_root(folder).rstrip(b"/"))
    paths = [entry.path for entry in files]
    output = _RunningGit(repo, ("check-attr", "-z", "--stdin", *_CONVERSIONS), _nul_terminated(paths)).answer() if paths else b""
    if output is None:
        known.attributes_unknown.append(repo.prefix)
        return
    if _UNSPECIFIED not in paths and output.count(b"\0%b\0" % _UNSPECIFIED) == len(paths) * len(_CONVERSIONS):
        return  # the usual repository; to split the output takes eight times as long
    fields = output.split(b"\0")
    values = zip(fields[::3], fields[2::3], strict=False)
    known.converted |= {repo.in_root(path) for path, value in values if value not in (_UNSPECIFIED, _UNSET)}


def _nul_terminated(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _is_below(path: bytes, folders: list[bytes]) -> bool:
    return bool(folders) and any(not folder or path == folder or path.startswith(folder + b"/") for folder in folders)


class _RunningGit:
    """A running git query, answered later."""

    def __init__(self, repo: _Repository, arguments: tuple[str, ...], stdin_data: bytes = b"") -> None:
        import subprocess  # not needed by the launcher

        argv = ("git", "-C", repo.path, *repository.SAFE_OPTIONS, *arguments)
        debug.print_command(argv)
        env = repository.git_environment(repo.query.environ) | {"GIT_INDEX_FILE": f"{repo.query.index_copy}.none"}
        del env["GIT_ATTR_NOSYSTEM"]  # the user's system-wide conversions count
        env["GIT_FLUSH"] = "0"  # else `check-attr` writes each line on its own
        self._until = min(repo.query.deadline, time.monotonic() + _SECONDS)
        self._failed = subprocess.TimeoutExpired
        stdin = streams.memory_file(stdin_data)
        try:
            self._git = subprocess.Popen(
                argv,
                executable=repo.query.program,
                env=env,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        finally:
            os.close(stdin)

    def answer(self) -> bytes | None:
        """Return the output; None if git failed or timed out."""
        try:
            output, _ = self._git.communicate(timeout=max(0.0, self._until - time.monotonic()))
        except self._failed:
            self._git.kill()
            self._git.communicate()
            return None
        return output if self._git.returncode == 0 else None
