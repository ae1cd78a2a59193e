"""Disk usage of trees."""

import os

from agent_dev.linux import syscalls


def disk_usage(path: str) -> int:
    """Return the disk usage of a tree without following symlinks; directories that cannot be entered are left out."""
    total = os.lstat(path).st_blocks * 512
    if os.path.islink(path) or not os.path.isdir(path):
        return total
    start = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    folders = [b"."]
    try:
        while folders:
            folder = folders.pop()
            try:
                fd = syscalls.open_below(start, folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            with os.scandir(fd) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(folder + b"/" + os.fsencode(entry.name))
            os.close(fd)
    finally:
        os.close(start)
    return total
