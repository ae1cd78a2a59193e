"""What git tells of a root at the start of a session: what its index vouches for, what it ignores, what it converts.

Asked of every repository in the root, nested ones and submodules too, each with an index that is not there: git then
neither reads the repository's (we do) nor touches the shared part of a split one. No filter, hook or monitor is run.
"""

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_dev import trace as debug
from agent_dev.errors import Refused
from agent_dev.git import repository as repo
from agent_dev.git.formats.index_format import GITLINK, IndexEntry, IndexUnreadableError, parse_whole
from agent_dev.git.private_copy import copy_file

_MANY_REPOSITORIES = 200  # of one root: below further ones nothing counts as ignored
_SECONDS = 20.0  # for one git: a FIFO called .gitignore would make it wait for ever
_LARGEST_INDEX = 1 << 30
# What may give other bytes of the same number; line ends cannot (core/conversion.py).
_CONVERSIONS = ("filter", "ident", "working-tree-encoding")
_NONE = (b"unspecified", b"unset")


@dataclass(frozen=True, slots=True)
class Tracked:
    """One path of an index, the number of the object store that has it, and whether it is older than the index."""

    entry: IndexEntry
    store: int
    is_older: bool

    @property
    def blob(self) -> str:
        """The blob's name in a manifest."""
        return f"@{self.store}:{self.entry.oid.hex()}"


@dataclass(slots=True)
class Known:
    """What git told of one root. `unknown` and `unsure`: directories below which it could not tell what it ignores, converts."""

    tracked: dict[bytes, Tracked] = field(default_factory=dict)
    untracked: set[bytes] = field(default_factory=set)
    converted: set[bytes] = field(default_factory=set)
    unknown: list[bytes] = field(default_factory=list)
    unsure: list[bytes] = field(default_factory=list)

    def is_ignored(self, path: bytes) -> bool:
        """Whether git ignores a path; what lies in a git dir counts as such."""
        if b".git" in path and b".git" in path.split(b"/"):
            return True
        return path not in self.tracked and path not in self.untracked and not _is_below(path, self.unknown)

    def is_converted(self, path: bytes) -> bool:
        """Whether a path's blob may have other bytes than the disk, though as many."""
        return path in self.converted or _is_below(path, self.unsure)


@dataclass(frozen=True, slots=True)
class Question:
    """Whom to ask: git, the user's environment, where to put a copy of the index, and until when (monotonic)."""

    program: str
    environ: dict[str, str]
    copy: str
    until: float


def ask(root: str, question: Question, stores: list[str]) -> Known:
    """Return what git tells of a root; the object stores that are met are added to `stores`."""
    known = Known()
    todo = [b""]
    for number, prefix in enumerate(todo):  # grows
        git = _git_of(os.path.join(root, os.fsdecode(prefix)))
        if git is None and prefix:
            known.unknown.append(prefix)  # broken, or no repository after all
        elif git is None or number >= _MANY_REPOSITORIES or time.monotonic() > question.until:
            known.unknown.append(prefix)
        else:
            todo += _ask_one(_Repository(root, prefix, git, question), known, stores)
    return known


@dataclass(frozen=True, slots=True)
class _Repository:
    """One of the repositories in a root; `prefix` is its path there, empty for the root's own."""

    root: str
    prefix: bytes
    git: repo.Git
    question: Question

    @property
    def place(self) -> str:
        return os.path.join(self.root, os.fsdecode(self.prefix))

    def inside(self, path: bytes) -> bytes:
        return self.prefix + b"/" + path if self.prefix else path


def _git_of(place: str) -> repo.Git | None:
    try:
        found = repo.find(place)
    except (Refused, OSError):
        return None
    return found.git if found.root == os.path.realpath(place) else None


def _ask_one(one: _Repository, known: Known, stores: list[str]) -> list[bytes]:
    """Ask of one repository; return the paths of those below it."""
    listing = _Git(one, ("ls-files", "-o", "--exclude-standard", "-z"))
    try:
        entries, written = _index(one)
    except (OSError, IndexUnreadableError):
        listing.answer()
        known.unknown.append(one.prefix)
        return []
    objects = f"{one.git.common}/objects"
    if objects not in stores:
        stores.append(objects)
    store = stores.index(objects)
    nested = [one.inside(entry.path) for entry in entries if entry.mode == GITLINK]
    files = [entry for entry in entries if stat.S_ISREG(entry.mode) or stat.S_ISLNK(entry.mode)]
    known.tracked |= {one.inside(entry.path): Tracked(entry, store, entry.mtime < written) for entry in files}
    _learn_conversions(one, files, known)
    listed = listing.answer()
    if listed is None:
        known.unknown.append(one.prefix)
        return [path for path in nested if os.path.lexists(os.path.join(one.root, os.fsdecode(path), ".git"))]
    paths = [one.inside(path) for path in listed.split(b"\0") if path]
    known.untracked |= {path for path in paths if not path.endswith(b"/")}
    nested += [path[:-1] for path in paths if path.endswith(b"/")]
    return [path for path in nested if os.path.lexists(os.path.join(one.root, os.fsdecode(path), ".git"))]


def _index(one: _Repository) -> tuple[list[IndexEntry], int]:
    """Return the entries and when they were written. Raises OSError or IndexUnreadableError."""
    place = f"{one.git.folder}/index"
    if not one.prefix:
        _copy_index(place, one.question.copy)
        place = one.question.copy
    if not os.path.lexists(place):
        return [], 0  # a repository without a commit has none
    data, written = _regular(place)
    size = _oid_size(data, one.git.common)
    return list(parse_whole(data, size, lambda name: _regular(f"{one.git.folder}/sharedindex.{name}")[0])), written


def _copy_index(place: str, copy: str) -> None:
    """Copy the index with its mtime: with a new one an edit of the same instant could hide."""
    try:
        os.unlink(copy)
    except FileNotFoundError:
        pass
    copy_file(place, copy)


def _regular(place: str) -> tuple[bytes, int]:
    """Return a regular file's bytes and mtime. Raises OSError, IndexUnreadableError for what is none."""
    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_INDEX:
            raise IndexUnreadableError(f"{place} is no index")
        return file.read(), status.st_mtime_ns


def _oid_size(data: bytes, common: str) -> int:
    """Tell SHA-256 from SHA-1 by the checksum at the end; without one (index.skipHash) by the configuration."""
    import hashlib  # only beside a run

    for size, kind in ((20, hashlib.sha1), (32, hashlib.sha256)):
        if kind(data[:-size], usedforsecurity=False).digest() == data[-size:]:
            return size
    if any(data[-20:]):
        raise IndexUnreadableError("its checksum is wrong")
    return 32 if b"sha256" in _regular(f"{common}/config")[0].lower() else 20


def _learn_conversions(one: _Repository, files: list[IndexEntry], known: Known) -> None:
    """Note which of the tracked files have an attribute that changes bytes, and where attributes cannot be known."""
    for entry in files:
        folder, _, name = entry.path.rpartition(b"/")
        if name == b".gitattributes" and not os.path.lexists(os.path.join(one.place, os.fsdecode(entry.path))):
            known.unsure.append(one.inside(folder).rstrip(b"/"))  # git would take the index's own, we gave it none
    paths = [entry.path for entry in files]
    told = _Git(one, ("check-attr", "-z", "--stdin", *_CONVERSIONS), _words(paths)).answer() if paths else b""
    if told is None:
        known.unsure.append(one.prefix)
        return
    words = told.split(b"\0")
    known.converted |= {one.inside(path) for path, value in zip(words[::3], words[2::3], strict=False) if value not in _NONE}


def _words(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _is_below(path: bytes, folders: list[bytes]) -> bool:
    return any(not folder or path == folder or path.startswith(folder + b"/") for folder in folders)


class _Git:
    """A git that was asked something of a repository, to be answered later."""

    def __init__(self, one: _Repository, words: tuple[str, ...], question: bytes | None = None) -> None:
        import subprocess  # only beside a run

        argv = ("git", "-C", one.place, *repo.SAFE, *words)
        debug.show(argv)
        env = repo.environment(one.question.environ) | {"GIT_INDEX_FILE": f"{one.question.copy}.none"}
        del env["GIT_ATTR_NOSYSTEM"]  # what the user's git converts counts
        self._until, self._question = min(one.question.until, time.monotonic() + _SECONDS), question
        self._failed = subprocess.TimeoutExpired
        self._git = subprocess.Popen(
            argv,
            executable=one.question.program,
            env=env,
            stdin=subprocess.DEVNULL if question is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def answer(self) -> bytes | None:
        """Return what it says; None when it failed, or took too long."""
        try:
            told, _ = self._git.communicate(self._question, timeout=max(0.0, self._until - time.monotonic()))
        except self._failed:
            self._git.kill()
            self._git.communicate()
            return None
        return told if self._git.returncode == 0 else None
