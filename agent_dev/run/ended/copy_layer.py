"""Copy a directory that an agent wrote, such as an upper layer: with whiteouts, opaque directories, hard links, ACLs, modes."""

import os
import stat

from agent_dev.errors import Refused
from agent_dev.fs import acl, durable, walk
from agent_dev.fs.copytree import Copier, set_directory_attributes, set_directory_mode
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import HARMLESS_OVERLAY_ATTRIBUTES, FileType, WalkedEntry
from agent_dev.fs.unlocked_directories import UnlockedDirectories
from agent_dev.linux import syscalls
from agent_dev.sanitize import visible

_ACLS = (acl.XATTR, "system.posix_acl_default")  # of directories
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def copy_directory(source: str, target: str) -> None:
    """Copy a directory that no agent can change now into a new one. Raises OSError, or Refused for what cannot be copied."""
    os.mkdir(target, 0o700)
    tree = Tree(source, is_ours=True)
    tree.unlocked = UnlockedDirectories(tree.fd, lambda *_: None)
    try:
        copy_tree_exactly(tree, target)
    finally:
        tree.restore_modes()
        tree.close()


def copy_tree_exactly(source: Tree, target: str) -> None:
    """Copy a tree of ours, whose locked directories may be unlocked, into an empty directory of ours, durably.

    The attributes and the mode of the top are not copied. Raises OSError, or Refused for what cannot be copied.
    """
    problems: list[str] = []
    copy = Tree(target, is_ours=True)
    try:
        copier = _LayerCopier(Copier(source, copy, is_exact=True))
        for found in walk.walk(source.path, problems=problems, opened=source.unlocked):
            if not copier.copy(found):
                problems.append(f"{os.fsdecode(found.path)}: it is a device, or its path is too long")
            if problems:
                raise Refused(message=f"cannot copy {visible(problems[0])}")
        copier.finish_directories()
        durable.syncfs(copy.fd)
    finally:
        copy.close()


class _LayerCopier:
    """Copies the entries of a layer, parents first."""

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self._source, self._target = copier.source, copier.target
        self._links: dict[int, bytes] = {}  # inode of a file with several names → its first name
        self._directories: list[WalkedEntry] = []

    def copy(self, found: WalkedEntry) -> bool:
        """Copy an entry; return False if that is impossible."""
        folder, _, name = found.path.rpartition(b"/")
        entry, parent = found.entry, self._target.directory(folder)
        if found.is_too_deep:
            return False
        if found.is_whiteout():
            durable.whiteout(name, parent)
        elif entry.type is FileType.SOCKET:
            durable.make_socket(name, parent, entry.mode & 0o777)
        elif first := self._links.get(entry.inode) if entry.type is FileType.FILE else None:
            first_folder, _, first_name = first.rpartition(b"/")
            durable.link(self._target.directory(first_folder), first_name, self._target.directory(folder), name)
        elif not self._copier.copy(found.path, entry):
            return False
        elif entry.type is FileType.DIRECTORY:
            self._directories.append(found)
        elif entry.type is FileType.FILE and entry.links > 1:
            self._links[entry.inode] = found.path
        return True

    def finish_directories(self) -> None:
        """Copy the attributes, modes and times of the directories, once their content is complete."""
        for found in reversed(self._directories):
            set_directory_attributes(self._target, found.path, found.entry, *_overlay_attributes(found), *self._acls(found.path))
            set_directory_mode(self._target, found.path, _mode(found), found.entry.mtime)

    def _acls(self, path: bytes) -> list[tuple[str, bytes]]:
        fd = syscalls.open_below(self._source.fd, path, _FOLDER)
        try:
            return [(name, value) for name in _ACLS if (value := _attribute(fd, name)) is not None]
        finally:
            os.close(fd)


def _overlay_attributes(found: WalkedEntry) -> list[tuple[str, bytes]]:
    """Return the overlay attributes that a copy needs: not those that refer to files of lower layers."""
    return [(f"user.overlay.{name}", value) for name, value in found.overlay if name not in HARMLESS_OVERLAY_ATTRIBUTES]


def _attribute(fd: int, name: str) -> bytes | None:
    try:
        return os.getxattr(fd, name)
    except OSError:
        return None  # it has none, or the file system has none


def _mode(found: WalkedEntry) -> int:
    return found.entry.mode & (0o777 | stat.S_ISVTX | stat.S_ISGID)
