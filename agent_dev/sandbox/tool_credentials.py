"""Find credentials in tool directories and caches by file name, to a bounded depth, and cache the result.

A start checks the mtimes of the searched directories, and searches again if one changed. A git config is not masked, but
replaced by a copy without secrets, so that a cache of repositories keeps working.
"""

import os
import time

from agent_dev.fs import cache
from agent_dev.git.secret_removal import remove_secrets
from agent_dev.sandbox.credentials import REPLACEMENTS
from agent_dev.sandbox.plan import MaskEntry

_MAX_DEPTH = 6  # nested directories: ~/.nvm/versions/node/v20/lib/node_modules/npm
_MAX_FOLDERS, _MAX_ENTRIES = 200, 20_000  # per tool directory or cache, nearest to its top first
_RECENT = 2_000_000_000  # ns: a change this recent may be followed by one with the same mtime
_MAX_SIZE = 1 << 20
# Large directories in which no tool keeps settings.
_SKIPPED = frozenset(
    ("bin", "doc", "docs", "include", "locale", "man", "node_modules", "objects", "refs", "share", "site-packages")
)
_SKIPPED_PREFIXES = (
    "content-v2",
    "index-v5",
    "_cacache",
    "archive-v",
    "wheels-v",
    "http-v",
    "simple-v",
    "sdists-v",
    "python2.",
    "python3.",
)

Row = list[object]


class CredentialIndex:
    """Credentials found in directories, cached between starts."""

    def __init__(self, folder: str) -> None:
        """Open the index in the cache directory."""
        self._file = f"{folder}/credentials.json"
        self._cached = cache.read(self._file)
        self._is_changed = False

    def find(self, folder: str) -> tuple[MaskEntry, ...]:
        """Return the mask entries for the credentials of a directory, found by name or in git configs."""
        found = self._cached.get(folder)
        if not (isinstance(found, list) and len(found) == 3 and isinstance(found[2], list) and _is_unchanged(found[0], found[1])):
            found = _search(folder)
            self._cached.pop(folder, None)
            self._cached[folder] = found
            self._is_changed = True
        return tuple(blank for blank in (_mask_entry(folder, path) for path in found[2]) if blank is not None)

    def save(self) -> None:
        """Save the index if it changed."""
        if self._is_changed:
            cache.write(self._file, self._cached)


def _is_unchanged(paths: object, times: object) -> bool:
    if not (paths and isinstance(paths, list) and isinstance(times, list)):
        return False
    try:
        return [status.st_mtime_ns for status in map(os.stat, paths)] == times
    except (OSError, ValueError, TypeError):
        return False


def _search(folder: str) -> list[list[object]]:
    """Return the directories searched, their mtimes, and the paths of credentials relative to the top."""
    recent = time.time_ns() - _RECENT
    searched: list[object] = []
    times: list[object] = []
    credentials: list[object] = []
    waiting, entries_left = [("", 0)], _MAX_ENTRIES
    for relative, depth in waiting:
        path = f"{folder}/{relative}" if relative else folder
        try:
            mtime = os.stat(path).st_mtime_ns
        except OSError:
            continue  # just removed
        names, folders = _list(path, entries_left)
        entries_left -= len(names)
        searched.append(path)
        times.append(mtime if mtime < recent else 0)
        prefix = f"{relative}/" if relative else ""
        credentials += [prefix + name for name in names if name.lower() in REPLACEMENTS and name not in folders]
        if "config" in names and (relative.endswith("/.git") or relative == ".git" or {"HEAD", "objects"} <= set(names)):
            credentials.append(f"{prefix}config")
            continue
        for name in sorted(folders):
            is_skipped = name in _SKIPPED or name.startswith(_SKIPPED_PREFIXES)
            if not is_skipped and depth < _MAX_DEPTH and len(waiting) < _MAX_FOLDERS and entries_left > 0:
                waiting.append((prefix + name, depth + 1))
    return [searched, times, credentials]


def _list(path: str, limit: int) -> tuple[list[str], set[str]]:
    """Return the names in a directory, limited in number, and those that are directories."""
    names: list[str] = []
    folders: set[str] = set()
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if len(names) >= limit:
                    break
                names.append(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    folders.add(entry.name)
    except OSError:
        return names, folders  # unreadable for us, and therefore for the agent
    return names, folders


def _mask_entry(folder: str, path: object) -> MaskEntry | None:
    """Return the entry that replaces a credential; None if it can stay."""
    name = str(path)
    base = name.rpartition("/")[2]
    if base != "config":
        return MaskEntry(name, REPLACEMENTS.get(base.lower(), b"")) if os.path.isfile(f"{folder}/{name}") else None
    try:
        with open(f"{folder}/{name}", "rb", 0) as file:
            data = file.read(_MAX_SIZE)
    except OSError:
        return None
    cleaned, removed = remove_secrets("config", data)
    return MaskEntry(name, cleaned or b"") if removed else None
