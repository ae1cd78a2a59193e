"""The view of a running sandbox from outside: its root through its own mount, and what lies below the overlay there."""

import os
import stat

from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint import snapshot
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.fs import dir_tree as files
from agent_dev.fs import walk as scan
from agent_dev.linux import pid_namespace as leftovers
from agent_dev.linux import syscalls as kernel
from agent_dev.sandbox import overlay_root as view
from agent_dev.sandbox import sandbox_monitor as supervise
from agent_dev.session import store

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
        fd = view.open_overlay(pid, path) if pid else -1
        if fd >= 0:
            return fd
    raise FileNotFoundError(2, "its overlay is not to be found")


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
