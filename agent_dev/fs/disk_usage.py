"""Disk usage of trees."""

import os

from agent_dev.linux import syscalls


def disk_usage(path: str, *, with_links: bool = True) -> int:
    """Return the bytes that a tree uses without following symlinks; directories that cannot be entered are left out.

    `with_links`: include files with other hard links, which may be outside of the tree.
    """
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
                    status = entry.stat(follow_symlinks=False)
                    is_folder = entry.is_dir(follow_symlinks=False)
                    total += status.st_blocks * 512 if with_links or is_folder or status.st_nlink == 1 else 0
                    if is_folder:
                        folders.append(folder + b"/" + os.fsencode(entry.name))
            os.close(fd)
    finally:
        os.close(start)
    return total
