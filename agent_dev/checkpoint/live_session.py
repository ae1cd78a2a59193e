"""Access to a running sandbox from the host: a root through the sandbox's own mount, and the lower layer below it."""

import os
import stat

from agent_dev.checkpoint import restore_plan, snapshot
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.fs import dir_tree, walk
from agent_dev.linux import pid_namespace, process, syscalls
from agent_dev.sandbox import overlay_root
from agent_dev.session import store

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def open_root(record: store.Record, path: str) -> int:
    """Open the overlay of a root in a running session; no link is followed.

    Raises OSError if the session has ended, or the path is not the overlay that was mounted.
    """
    life = record.get("life")
    if life is None or not pid_namespace.is_running(pid_namespace.NamespaceIdentity(*life)):
        raise ProcessLookupError(3, "the session has ended")
    init = pid_namespace.NamespaceIdentity(*life).init
    for pid in (process.first_child(init), init):
        fd = overlay_root.open_overlay(pid, path) if pid else -1
        if fd >= 0:
            return fd
    raise FileNotFoundError(2, "overlay not found")


class LowerLayer:
    """The lower layer: the real tree. The content of a file is named by `/` and its path."""

    def __init__(self, path: str) -> None:
        self._tree = dir_tree.Tree(path)

    def close(self) -> None:
        """Close every descriptor."""
        self._tree.close()

    def node(self, path: str) -> Node | None:
        """Return the node at a path; None if there is none or it cannot be restored."""
        raw = os.fsencode(path)
        entry = self._tree.entry_at(raw)
        if entry is None:
            return None
        folder, _, name = raw.rpartition(b"/")
        folder_fd = self._tree.directory(folder)
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        kind = snapshot.KINDS.get(stat.S_IFMT(status.st_mode), "")
        content = {restore_plan.SYMLINK: os.fsdecode(entry.target), restore_plan.FILE: f"/{path}"}.get(kind, "")
        has_attributes = kind in (restore_plan.FILE, restore_plan.DIRECTORY)
        attributes = snapshot.read_attributes(f"/proc/self/fd/{folder_fd}/{os.fsdecode(name)}") if has_attributes else ""
        metadata = (entry.mode, entry.size, entry.mtime, status.st_uid, status.st_gid)
        return Node(path, kind, *metadata, content, attributes, entry.inode, 1, 0) if kind else None

    def paths_below(self, path: str) -> list[str]:
        """Return all paths below a directory; empty for anything else."""
        try:
            fd = syscalls.open_below(self._tree.fd, os.fsencode(path), _FOLDER)
        except OSError:
            return []
        try:
            found = walk.walk(f"/proc/self/fd/{fd}", attributes=False, problems=[])
            return [f"{path}/{os.fsdecode(one.path)}" for one in found]
        finally:
            os.close(fd)

    def open(self, node: Node) -> int:
        """Open a file's content."""
        return self._tree.open(os.fsencode(node.content[1:]), os.O_RDONLY)
