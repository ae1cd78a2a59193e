"""Find files that several sessions of one directory or repository have changed, without reading whole upper layers.

Only directories in the uppers of at least two sessions are listed, so a directory of 100,000 files that one session has costs
one lookup. A running agent may change its upper at the same time, so directories are opened without following symlinks.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator

from agent_dev.git import check_ignore
from agent_dev.linux import syscalls
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store
from agent_dev.session.sessions import OPEN, ListedSession

MAX_DIRECTORIES, MAX_PATHS = 2_000, 1_000  # bounds of the search
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GIT = b".git"
_CHUNK, _LARGEST = 1 << 16, 4 << 20  # bytes that are read at once, and that are compared with the user's file


@dataclass(frozen=True, slots=True)
class SharedChange:
    """A path that several sessions have changed, relative to their roots: their ids, oldest first, and the root of each."""

    name: str
    sessions: tuple[str, ...]
    roots: tuple[str, ...]

    @property
    def path(self) -> str:
        """The absolute path in the root of the first session."""
        return os.path.join(self.roots[0], self.name)


@dataclass(frozen=True, slots=True)
class _Layer:
    """The changes of a session in one root."""

    session: str
    root: str
    upper: str
    leaves: tuple[str, ...]


def find_shared_changes(found: Iterable[ListedSession], environ: dict[str, str]) -> tuple[SharedChange, ...]:
    """Return the files that at least two of the open sessions have changed, sorted.

    Unchanged files are left out, and so are those that git ignores or that the agents leave in each repository.
    """
    uppers: dict[str, list[_Layer]] = defaultdict(list)
    untrusted: set[str] = set()
    for one in found:
        if one.problem or one.state not in OPEN or store.is_direct(one.record):
            continue
        untrusted.update(store.untrusted_paths(one.record))
        repositories = {entry["root"]: entry["common"] for entry in one.record["git"]}
        leaves = tuple(one.record.get("leaves", ()))
        for number, root in enumerate(one.record["roots"]):
            layer = _Layer(one.session.id, root, one.session.root(number, root).upper, leaves)
            uppers[repositories.get(number, root)].append(layer)
    shared: list[SharedChange] = []
    for layers in uppers.values():
        if len(layers) > 1:
            shared += _shared_in_layers(layers[-store.NEWEST :], tuple(untrusted), environ)
    return tuple(sorted(shared, key=lambda one: one.path))


def _shared_in_layers(layers: list[_Layer], untrusted: tuple[str, ...], environ: dict[str, str]) -> Iterator[SharedChange]:
    tops: dict[str, int] = {}
    try:
        for layer in layers:
            try:
                tops[layer.session] = os.open(layer.upper, _FOLDER)
            except OSError:
                continue  # just removed
        search = _Search({layer.session: layer.root for layer in layers}, tops, untrusted, environ)
        search.leaves = {pattern for layer in layers for pattern in layer.leaves}
        yield from search.run()
    finally:
        for fd in tops.values():
            os.close(fd)


class _Search:
    """A search through the uppers of one repository, level by level. `roots`, `tops`: of each session."""

    def __init__(self, roots: dict[str, str], tops: dict[str, int], untrusted: tuple[str, ...], environ: dict[str, str]) -> None:
        self._roots, self._tops, self._untrusted, self._environ = roots, tops, untrusted, environ
        self._directories = 0
        self.leaves: set[str] = set()  # patterns of files that the agents leave in each repository

    def run(self) -> Iterator[SharedChange]:
        level: dict[bytes, tuple[str, ...]] = {b"": tuple(self._tops)}
        count = 0
        while level and count < MAX_PATHS:
            paths = self._entries(level)
            ignored = self._ignored(paths)
            level = {}
            for path, kinds in sorted(paths.items()):
                if path in ignored:
                    continue
                directories = tuple(session for session, kind in kinds.items() if kind)
                if len(directories) > 1:
                    level[path] = directories
                if len(directories) < len(kinds) and count < MAX_PATHS:
                    changed = tuple(session for session in kinds if kinds[session] or self._is_changed(session, path))
                    if len(changed) > 1:
                        count += 1
                        yield SharedChange(os.fsdecode(path), changed, tuple(self._roots[one] for one in changed))

    def _ignored(self, paths: dict[bytes, dict[str, bool]]) -> frozenset[bytes]:
        """Return the paths that git ignores; a final slash marks a directory that the user does not have."""
        asked = sorted(path + b"/" * any(kinds.values()) for path, kinds in paths.items())
        root = next(iter(self._roots.values()))  # work trees have the same rules, but for changes of `.gitignore`
        ignored = check_ignore.find_ignored(root, asked, self._untrusted, self._environ)
        return frozenset(path.rstrip(b"/") for path in ignored) | self._left(root, paths)

    def _left(self, root: str, paths: Iterable[bytes]) -> frozenset[bytes]:
        """Return the paths, new to the user, that match what the agents leave."""
        if not self.leaves:
            return frozenset()
        from agent_dev.path_patterns import files_left  # few agents leave files

        return files_left(self.leaves, (path for path in paths if not os.path.lexists(os.path.join(os.fsencode(root), path))))

    def _entries(self, level: dict[bytes, tuple[str, ...]]) -> dict[bytes, dict[str, bool]]:
        """Return the entries that several sessions have in these directories: path → session → whether it is a directory."""
        entries: dict[bytes, dict[str, bool]] = {}
        for folder, sessions in level.items():
            names: dict[bytes, dict[str, bool]] = defaultdict(dict)
            for session in sessions:
                for name, is_directory in self._names(session, folder):
                    names[name][session] = is_directory
            prefix = folder + b"/" if folder else b""
            entries |= {prefix + name: kinds for name, kinds in names.items() if len(kinds) > 1 and (folder or name != _GIT)}
        return entries

    def _names(self, session: str, folder: bytes) -> list[tuple[bytes, bool]]:
        self._directories += 1
        if self._directories > MAX_DIRECTORIES:
            return []
        try:
            fd = syscalls.open_below(self._tops[session], folder or b".", _FOLDER)
        except OSError:
            return []  # removed, or unreadable
        try:
            with os.scandir(fd) as found:
                return [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in found]
        except OSError:
            return []
        finally:
            os.close(fd)

    def _is_changed(self, session: str, path: bytes) -> bool:
        """Return whether an entry of an upper differs from the user's file: opening a file for writing copies it, too."""
        try:
            fd = syscalls.open_below(self._tops[session], path, os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            return True
        original = os.path.join(os.fsencode(self._roots[session]), path)
        try:
            status = os.fstat(fd)
            theirs = os.lstat(original)
            if stat.S_ISREG(status.st_mode) and _key(status) == _key(theirs) and status.st_size <= _LARGEST:
                return not _have_equal_content(f"/proc/self/fd/{fd}", original)
        except OSError:
            return True
        finally:
            os.close(fd)
        return True


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_mode, status.st_size


def _have_equal_content(one: str, other: bytes) -> bool:
    with open(one, "rb", 0) as first, open(other, "rb", 0) as second:
        while (piece := first.read(_CHUNK)) == second.read(_CHUNK):
            if not piece:
                return True
    return False


def others_by_path(shared: Iterable[SharedChange], session: str) -> dict[str, tuple[str, ...]]:
    """Return the paths that both one session and others have changed: its absolute path → ids of the others."""
    return {
        os.path.join(one.roots[one.sessions.index(session)], one.name): tuple(id_ for id_ in one.sessions if id_ != session)
        for one in shared
        if session in one.sessions
    }
