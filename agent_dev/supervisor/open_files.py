"""Files below a directory that processes of a sandbox have open, and how to relink them.

The kernel keeps the dentries of an open file's parent directories, so each such file is moved out of the directory and linked
back. Its name always resolves to its content: to the file, for an instant to a symlink to it, then to the file again. Processes
keep their open files.
"""

import os

from agent_dev.linux import syscalls

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_TEMP_DIRECTORY = b".agent-dev-rename-%d"


def open_files_below(folder: bytes) -> set[bytes]:
    """Return the files below a directory, relative to it, that processes of other pid namespaces have open or mapped."""
    own_namespace = os.readlink("/proc/self/ns/pid")
    found: set[bytes] = set()
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") != own_namespace:
                found |= _opened_by(name)
        except OSError:
            continue  # it has ended, or belongs to another user
    prefix = folder + b"/"
    return {path[len(prefix) :] for path in found if path.startswith(prefix)}


def _opened_by(pid: str) -> set[bytes]:
    found = {os.readlink(b"/proc/%b/fd/%b" % (pid.encode(), name)) for name in map(os.fsencode, os.listdir(f"/proc/{pid}/fd"))}
    with open(f"/proc/{pid}/maps", "rb") as file:
        rows = (line.rstrip(b"\n").split(None, 5) for line in file)
        return found | {row[5].replace(rb"\012", b"\n") for row in rows if len(row) > 5}


def relink(root: int, path: bytes, names: set[bytes]) -> None:
    """Relink the files below `path`, relative to an overlay's open root. Raises OSError."""
    parent_path, _, _ = path.rpartition(b"/")
    parent = syscalls.open_below(root, parent_path or b".", _FOLDER)
    temp_name = _TEMP_DIRECTORY % os.getpid()
    os.mkdir(temp_name, 0o700, dir_fd=parent)
    try:
        temp = os.open(temp_name, _FOLDER, dir_fd=parent)
        for file in sorted(names):
            folder, _, _ = (path.rpartition(b"/")[2] + b"/" + file).rpartition(b"/")
            directory = syscalls.open_below(parent, folder, _FOLDER)
            _replace(directory, file.rpartition(b"/")[2], temp, b"../" * (folder.count(b"/") + 1) + temp_name)
            os.close(directory)
        os.close(temp)
    finally:
        os.rmdir(temp_name, dir_fd=parent)


def _replace(folder: int, name: bytes, temp: int, temp_path: bytes) -> None:
    if not _is_file(folder, name):
        return  # gone, or not a regular file
    old, new = b"old", b"new"
    link = temp_path + b"/" + old
    os.symlink(link, old, dir_fd=temp)
    syscalls.rename(temp, old, folder, name, syscalls.EXCHANGE)
    os.link(old, new, src_dir_fd=temp, dst_dir_fd=temp, follow_symlinks=False)
    try:
        syscalls.rename(temp, new, folder, name, syscalls.EXCHANGE)
        if not _is_link(temp, new, link):  # another process has just replaced the file: keep its version
            syscalls.rename(temp, new, folder, name, syscalls.EXCHANGE)
    except FileNotFoundError:
        pass  # just removed
    os.unlink(new, dir_fd=temp)
    os.unlink(old, dir_fd=temp)


def _is_link(folder: int, name: bytes, target: bytes) -> bool:
    try:
        return os.readlink(name, dir_fd=folder) == target
    except OSError:
        return False


def _is_file(folder: int, name: bytes) -> bool:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o170000 == 0o100000
    except OSError:
        return False
