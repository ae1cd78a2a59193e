"""The view of a running sandbox from outside: its root through its own mount, and what lies below the overlay there."""

import os
import stat

from agent_dev.core import history
from agent_dev.core.history import Node
from agent_dev.host import files, kernel, leftovers, scan, snapshot, store, supervise

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_KINDS = {
    stat.S_IFREG: history.FILE,
    stat.S_IFDIR: history.DIRECTORY,
    stat.S_IFLNK: history.SYMLINK,
    stat.S_IFIFO: history.FIFO,
    stat.S_IFSOCK: history.SOCKET,
}


def open_root(record: store.Record, path: str) -> int:
    """Open a root as a running session sees it: the overlay itself, by a path on which no link is followed.

    Raises OSError: it has ended, or what stands there is not the overlay that was mounted.
    """
    life = record.get("life")
    if life is None or not leftovers.is_there(leftovers.Life(*life)):
        raise ProcessLookupError(3, "the session has ended")
    init = leftovers.Life(*life).init
    for pid in (supervise.first_child(init), init):
        fd = _open(pid, path) if pid else -1
        if fd >= 0:
            return fd
    raise FileNotFoundError(2, "its overlay is not to be found")


def _open(pid: int, path: str) -> int:
    try:
        top = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fd = kernel.open_across(top, os.fsencode(path.lstrip("/")), _FOLDER)
    except OSError:
        return -1
    finally:
        os.close(top)
    if _is_overlay(pid, os.fstat(fd).st_dev):
        return fd
    os.close(fd)
    return -1


def _is_overlay(pid: int, device: int) -> bool:
    """Whether a device is an overlay's in the mount namespace of a process, which the agent cannot mount in."""
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        for line in file:
            words = line.split()
            if words[2] == wanted and words[words.index(b"-") + 1] == b"overlay":
                return True
    return False


class Lower:
    """What lies below the overlay: the real tree. A file's content is named `/` and its path."""

    def __init__(self, path: str) -> None:
        self._tree = files.Tree(path)

    def close(self) -> None:
        """Close every descriptor."""
        self._tree.close()

    def node(self, path: str) -> Node | None:
        """Return what stands at a path; None for nothing, and for what no restore can make."""
        raw = os.fsencode(path)
        entry = self._tree.look(raw)
        if entry is None:
            return None
        folder, _, name = raw.rpartition(b"/")
        place = self._tree.folder(folder)
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "")
        content = {history.SYMLINK: os.fsdecode(entry.target), history.FILE: f"/{path}"}.get(kind, "")
        own = kind in (history.FILE, history.DIRECTORY)
        attributes = snapshot.attributes_of(f"/proc/self/fd/{place}/{os.fsdecode(name)}") if own else ""
        metadata = (entry.mode, entry.size, entry.mtime, status.st_uid, status.st_gid)
        return Node(path, kind, *metadata, content, attributes, entry.inode, 1, 0) if kind else None

    def below(self, path: str) -> list[str]:
        """Return all that lies below a directory; nothing for anything else."""
        try:
            fd = kernel.open_below(self._tree.fd, os.fsencode(path), _FOLDER)
        except OSError:
            return []
        try:
            found = scan.walk(f"/proc/self/fd/{fd}", attributes=False, problems=[])
            return [f"{path}/{os.fsdecode(one.path)}" for one in found]
        finally:
            os.close(fd)

    def open(self, node: Node) -> int:
        """Open a file's content."""
        return self._tree.open(os.fsencode(node.content[1:]), os.O_RDONLY)
