"""The real home as the source of an import. Files with logins are not opened here, and links are not followed."""

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator

from agent_dev.config.agent_entry import AgentEntry
from agent_dev.config.profile import IMPORT_KINDS
from agent_dev.fs import dir_tree
from agent_dev.fs.entry import Entry, FileType
from agent_dev.home.autostart import LOGIN_KEYS, OTHER_LOGINS
from agent_dev.home.importing import settings_rules
from agent_dev.home.importing.items import LOGIN, RUNS, SECRET, UNCHECKED, LeftOut
from agent_dev.quick_dataclass import dataclass
from agent_dev.sandbox.credentials import CREDENTIAL_PATHS, looks_secret
from agent_dev.sanitize import visible

LARGEST_FILE = 4 << 20  # bytes
_LARGEST_ITEM = 32 << 20  # bytes
_MAX_FILES = 2000
_MAX_CHECKED = 256 << 10  # bytes of a text that is searched for secrets
CHANGED = "it changed since it was listed"
_PROGRAM_KINDS = ("servers", "hooks", "plugins")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A path that a profile names: its agent, kind, path, and keys (None: all)."""

    agent: str
    kind: str
    path: str
    keys: tuple[str, ...] | None = None


def wanted_paths(agent: str, entry: AgentEntry) -> tuple[Wanted, ...]:
    """Return the paths that an agent's profile names, logins last."""
    found = []
    for kind in IMPORT_KINDS:
        for name in getattr(entry, kind):
            path, mark, key = name.partition("#")
            found.append(Wanted(agent, kind, path, (key,) if mark else None))
    return (*found, *(Wanted(agent, LOGIN, path, LOGIN_KEYS.get(path)) for path in entry.login))


@dataclass(frozen=True, slots=True)
class Found:
    """A path that exists: its size, and the content of its files, None for those that are not opened."""

    wanted: Wanted
    size: int
    files: dict[str, bytes | None]
    stats: dict[str, Entry]


class SourceHome:
    """The real home, read below its descriptor."""

    def __init__(self, path: str, logins: Iterable[str]) -> None:
        """`logins`: paths that are not opened, in addition to known ones."""
        self.path = path
        self.tree = dir_tree.Tree(path)
        self.left_out: list[LeftOut] = []
        self._closed = (*logins, *LOGIN_KEYS, *OTHER_LOGINS, *CREDENTIAL_PATHS)

    def close(self) -> None:
        """Close the descriptors."""
        self.tree.close()

    def is_login(self, path: str) -> bool:
        """Return whether a path is, or is below, a file or directory with logins."""
        return any(path == login.rstrip("/") or path.startswith(login.rstrip("/") + "/") for login in self._closed)

    def find(self, wanted: Wanted) -> Found | None:
        """Return a path with the content of its files; None if it does not exist or is left out."""
        if not os.path.lexists(f"{self.path}/{wanted.path}"):
            return None
        entry = self._entry(wanted.path)
        if entry is None:
            return None
        files: dict[str, bytes | None] = {}
        stats: dict[str, Entry] = {}
        rows = self._below(wanted.path, 0) if entry.type is FileType.DIRECTORY else ((wanted.path, entry),)
        size = 0
        for path, one in rows:
            size += one.size
            if size > _LARGEST_ITEM or len(files) == _MAX_FILES:
                self._leave(wanted.path, f"more than {_MAX_FILES} files or {_LARGEST_ITEM >> 20} MiB")
                return None
            is_closed = wanted.kind == LOGIN or self.is_login(path)
            if is_closed and wanted.kind != LOGIN and wanted.keys is None:
                self._leave(path, "a file with a login")
                continue
            content = None if is_closed else self._read(path, one)
            if is_closed or content is not None:
                files[path], stats[path] = content, one
        return Found(wanted, sum(one.size for one in stats.values()), files, stats) if files else None

    def _below(self, folder: str, depth: int) -> Iterator[tuple[str, Entry]]:
        """Yield the files below a directory that can be copied; record the others as left out."""
        try:
            fd = self.tree.open(os.fsencode(folder), os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            self._leave(folder, f"cannot be read: {os.strerror(error.errno or 0)}")
            return
        try:
            names = sorted(os.listdir(fd))
        finally:
            os.close(fd)
        for name in names:
            path = f"{folder}/{name}"
            entry = self._entry(path)
            if entry is None:
                continue
            if entry.type is not FileType.DIRECTORY:
                yield path, entry
            elif name == ".git" or depth == 20:
                self._leave(path, "a git directory" if name == ".git" else "nested too deeply")
            else:
                yield from self._below(path, depth + 1)

    def _entry(self, path: str) -> Entry | None:
        """Return the entry of a regular file or a directory; anything else is left out."""
        try:
            entry = self.tree.entry_at(os.fsencode(path), attributes=False)
        except OSError as error:
            self._leave(path, f"cannot be read: {os.strerror(error.errno or 0)}")
            return None
        reason = self._reason(path, entry)
        if reason:
            self._leave(path, reason)
        return None if reason else entry

    def _reason(self, path: str, entry: Entry | None) -> str:
        """Return why a path cannot be copied, or ""."""
        name = path.rpartition("/")[2]
        if entry is None:
            return "below a link or another file system, which is not followed"
        if entry.type is FileType.SYMLINK:
            return self._describe_link(path, os.fsdecode(entry.target))
        if entry.type not in (FileType.FILE, FileType.DIRECTORY):
            return f"a {entry.type}"
        if visible(name) != name:
            return "its name has control or hidden characters"
        if entry.type is FileType.FILE and entry.size > LARGEST_FILE:
            return f"larger than {LARGEST_FILE >> 20} MiB"
        is_secret = entry.type is FileType.FILE and looks_secret(name) and not self.is_login(path)
        return "its name is that of a password or key file" if is_secret else ""

    def _describe_link(self, path: str, target: str) -> str:
        full = os.path.normpath(os.path.join(self.path, os.path.dirname(path), target))
        out = "" if full.startswith(self.path + "/") else " out of your home"
        return f"a link{out} to {target}, which is not followed"

    def _read(self, path: str, entry: Entry) -> bytes | None:
        try:
            data = self.tree.read(os.fsencode(path), LARGEST_FILE)
        except OSError as error:
            self._leave(path, f"cannot be read: {os.strerror(error.errno or 0)}")
            return None
        if data is None or len(data) != entry.size:
            self._leave(path, "it changed while it was read")
            return None
        return data

    def is_program(self, path: str) -> bool:
        """Return whether a file is executable. Raises OSError."""
        entry = self.tree.entry_at(os.fsencode(path), attributes=False)
        return entry is not None and bool(entry.mode & 0o100)

    def read_login(self, path: str, mark: str) -> bytes:
        """Return the content of a file with a login, which the user selected. Raises OSError if it is not the listed file."""
        entry = self.tree.entry_at(os.fsencode(path), attributes=False)
        if entry is None or entry.type is not FileType.FILE or stat_mark(entry) != mark:
            raise OSError(errno.ESTALE, CHANGED)
        data = self.tree.read(os.fsencode(path), LARGEST_FILE)
        if data is None or len(data) != entry.size:
            raise OSError(errno.ESTALE, CHANGED)
        return data

    def _leave(self, path: str, reason: str) -> None:
        self.left_out.append(LeftOut(path, reason))


def flags_of(found: Found) -> tuple[str, ...]:
    """Return the reasons not to select files by default: secrets in them, programs that run automatically."""
    flags = {SECRET} if None in found.files.values() else set[str]()
    if found.wanted.kind in _PROGRAM_KINDS:
        flags.add(RUNS)
    for path, data in found.files.items():
        if data is not None:
            flags |= _text_flags(path, data)
    return tuple(sorted(flags, reverse=True))


def _text_flags(path: str, data: bytes) -> set[str]:
    if len(data) > _MAX_CHECKED:
        return {UNCHECKED}
    text = data.decode("utf-8", "replace")
    flags = {SECRET} if settings_rules.holds_secret(text) else set[str]()
    if path.endswith(".md") and settings_rules.starts_programs(text):
        flags.add(RUNS)
    return flags


def digest(data: bytes) -> str:
    """Return the mark of a file that was read."""
    return hashlib.sha256(data).hexdigest()


def stat_mark(entry: Entry) -> str:
    """Return the mark of a file that is not opened."""
    return f"stat:{entry.inode}:{entry.size}:{entry.mtime}:{entry.ctime}"
