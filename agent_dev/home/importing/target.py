"""An agent home as the target of an import. The agent can write there: links are not followed, files are written atomically."""

import errno
import os
from secrets import token_hex
from typing import Any

from agent_dev.fs import dir_tree, durable, safe_mkdir
from agent_dev.fs.entry import Entry, FileType
from agent_dev.home import mount_points
from agent_dev.home.importing import documents
from agent_dev.home.importing.items import ABSENT, Item
from agent_dev.home.importing.source import LARGEST_FILE, digest, stat_mark

OTHER = "other"  # the mark of what cannot be compared: another type, too large, unreadable, not in the format


class Changed(Exception):
    """The file in the agent home is not the one that was listed."""


class TargetHome:
    """An agent home; it need not exist before the first write."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._tree: dir_tree.Tree | None = dir_tree.Tree(path) if os.path.isdir(path) else None

    def close(self) -> None:
        """Close the descriptors."""
        if self._tree is not None:
            self._tree.close()

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None if it does not exist. Raises OSError for anything but a readable file."""
        entry = self._entry(path)
        if entry is None or self._tree is None:
            return None
        data = self._tree.read(os.fsencode(path), LARGEST_FILE) if entry.type is FileType.FILE else None
        if data is None:
            raise OSError(errno.EINVAL, "in the agent home, it is not a regular file, or too large")
        return data

    def _entry(self, path: str) -> Entry | None:
        if self._tree is None or not os.path.lexists(f"{self.path}/{path}"):
            return None
        entry = self._tree.entry_at(os.fsencode(path), attributes=False)
        if entry is None:
            raise OSError(errno.EINVAL, "in the agent home, it is below a link, which is not followed")
        return entry

    def copies(self, item: Item) -> dict[str, str]:
        """Return the marks that the files or keys of an item have in the agent home."""
        if not item.keys:
            return {path: self._mark(path) if item.is_opened else self._stat_mark(path) for path in item.marks}
        marks = self._key_marks(item.path, item.keys)
        if item.is_opened:
            return marks
        return {item.path: "|".join(marks.values()) if any(marks.values()) else ABSENT}

    def _mark(self, path: str) -> str:
        try:
            data = self.read(path)
        except OSError:
            return OTHER
        return ABSENT if data is None else digest(data)

    def _stat_mark(self, path: str) -> str:
        try:
            entry = self._entry(path)
        except OSError:
            return OTHER
        return ABSENT if entry is None else stat_mark(entry)

    def _key_marks(self, path: str, keys: tuple[str, ...]) -> dict[str, str]:
        try:
            data = self.read(path)
            document = {} if data is None else documents.parse(path, data)
        except (OSError, documents.NotADocument):
            return dict.fromkeys((f"{path}#{key}" for key in keys), OTHER)
        return key_digests(path, document, keys)

    def write(self, path: str, data: bytes, before: bytes | None, *, is_program: bool = False) -> None:
        """Write a file atomically, readable only by its owner. Raises OSError; Changed unless its content is `before`."""
        if self._tree is None:
            mount_points.create_home(self.path)
            self._tree = dir_tree.Tree(self.path)
        folder, _, name = path.rpartition("/")
        safe_mkdir.make_directories(self._tree.fd, folder, 0o700)
        parent = safe_mkdir.open_below(self._tree.fd, folder)
        temp = f".agent-dev-import-{token_hex(8)}".encode()
        try:
            _fill(temp, parent, data, 0o700 if is_program else 0o600)
            self._put(path, before, parent, (temp, os.fsencode(name)))
        except BaseException:
            try:
                durable.unlink(temp, parent)
            except FileNotFoundError:
                pass
            raise
        finally:
            os.close(parent)

    def _put(self, path: str, before: bytes | None, parent: int, names: tuple[bytes, bytes]) -> None:
        temp, name = names
        if before is None:
            try:
                durable.rename_new(parent, temp, parent, name)
            except FileExistsError:
                raise Changed(path) from None
        elif self.read(path) != before:
            raise Changed(path)
        else:
            durable.replace(parent, temp, name)


def _fill(name: bytes, parent: int, data: bytes, mode: int) -> None:
    fd = durable.create(name, parent)
    try:
        durable.write(fd, data)
        durable.chmod(fd, mode)
        durable.fsync(fd)
    finally:
        os.close(fd)


def key_digests(path: str, document: dict[str, Any], keys: tuple[str, ...]) -> dict[str, str]:
    """Return the marks of keys of a document, ABSENT for missing ones."""
    return {f"{path}#{key}": documents.digest({key: document[key]}) if key in document else ABSENT for key in keys}
