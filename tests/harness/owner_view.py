"""Read and change trees as their owner, regardless of modes, without a trace.

A child becomes root of a user namespace in which the user's files belong to root: it reads files of mode 0000 without a
chmod, which would change the ctime.
"""

import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from agent_dev.linux import syscalls

T = TypeVar("T")


class TreeEntry(NamedTuple):
    """A path: its file type, mode, content or symlink target, `user.*` attributes and ACL."""

    type: int
    mode: int
    content: bytes = b""
    attributes: tuple[tuple[str, bytes], ...] = ()

    def __repr__(self) -> str:
        letter = stat.filemode(self.type)[0]
        return f"<{letter} {self.mode:04o} {self.content[:40]!r} {dict(self.attributes) or ''}>"


TreeEntries = dict[bytes, TreeEntry]


def call_as_owner(act: Callable[[], T], *, mounts: bool = False) -> T:
    """Return the result of `act` in a child to which no mode of the user's files denies access; raise its exception."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _send_result(write_end, act, mounts=mounts)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    is_done, found = pickle.loads(data)  # noqa: S301  (from our own child)
    if not is_done:
        raise found
    value: T = found
    return value


def _send_result(write_end: int, act: Callable[[], T], *, mounts: bool) -> None:
    try:
        _become_root(mounts=mounts)
        data = pickle.dumps((True, act()))
    except BaseException as error:  # noqa: BLE001  (raised again in the parent)
        data = pickle.dumps((False, error))
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(write_end, view) :]
    finally:
        os._exit(0)


def _become_root(*, mounts: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    if uid:
        syscalls.unshare(syscalls.NEWUSER | (syscalls.NEWNS if mounts else 0))
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    elif mounts:
        syscalls.unshare(syscalls.NEWNS)
    if mounts:
        syscalls.mount(None, "/", None, syscalls.REC | syscalls.SLAVE)


def entries_below(root: str | bytes | Path, skip: tuple[bytes, ...] = (b".git",)) -> TreeEntries:
    """Return everything below a directory; `skip`: names at the top that are left out. The directory itself is `b"."`."""
    try:
        return read(os.fsencode(root), skip)
    except PermissionError:
        return call_as_owner(lambda: read(os.fsencode(root), skip))


def read(root: bytes, skip: tuple[bytes, ...] = ()) -> TreeEntries:
    """Return the entries for `entries_below`, in a process that can read everything."""
    found = {b".": entry_at(root)}
    todo = [(root, b"")]
    while todo:
        parent, prefix = todo.pop()
        for name in os.listdir(parent):
            if prefix or name not in skip:
                path = parent + b"/" + name
                try:
                    one = found[prefix + name] = entry_at(path)
                except FileNotFoundError:
                    continue  # overlayfs lists whiteouts of a missing lower directory
                if stat.S_ISDIR(one.type):
                    todo.append((path, prefix + name + b"/"))
    return found


def entry_at(path: bytes) -> TreeEntry:
    """Return the entry at a path."""
    status = os.lstat(path)
    kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(kind):
        return TreeEntry(kind, 0o777, os.readlink(path))
    content = b""
    if stat.S_ISREG(kind):
        with open(path, "rb") as file:
            content = file.read()
    names = os.listxattr(path, follow_symlinks=False) if kind in (stat.S_IFREG, stat.S_IFDIR) else []
    own = sorted(name for name in names if name.startswith(("user.", "system.posix_acl_")))
    return TreeEntry(kind, mode, content, tuple((name, _value(path, name)) for name in own))


def _value(path: bytes, name: str) -> bytes:
    """Return an attribute's value; an ACL without ids, which differ in a user namespace."""
    value = os.getxattr(path, name, follow_symlinks=False)
    if name.startswith("user."):
        return value
    return value[:4] + b"".join(value[at : at + 4] for at in range(4, len(value), 8))
