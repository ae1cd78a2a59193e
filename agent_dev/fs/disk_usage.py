"""Emptying the trash: discarded sessions and homes that were reset; only when the user says so."""

import os
import time
from dataclasses import dataclass

from agent_dev.fs.rmtree import remove_tree
from agent_dev.linux import syscalls as kernel
from agent_dev.session.sessions import Here
from agent_dev.session.trash_retention import DAY, Thrown, gone


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What went, or with a dry run would go, and what stays."""

    gone: tuple[Thrown, ...]
    kept: tuple[Thrown, ...]


def clean(where: Here, days: int, mib: int, *, is_dry: bool) -> Cleaned:
    """Remove what lies in the trash longer than `days`, and the oldest beyond `mib` in all."""
    trash = where.store.trash
    thrown = tuple(_thrown(trash, name) for name in sorted(_names(trash)))
    going = gone(thrown, time.time_ns() - days * DAY, mib << 20)
    for one in () if is_dry else going:
        remove_tree(f"{trash}/{one.name}")
    names = {one.name for one in going}
    return Cleaned(going, tuple(one for one in thrown if one.name not in names))


def _names(trash: str) -> list[str]:
    try:
        return os.listdir(trash)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _thrown(trash: str, name: str) -> Thrown:
    """Return one thing; moving it there was the last change of its inode."""
    path = f"{trash}/{name}"
    return Thrown(name, os.lstat(path).st_ctime_ns, _size(path))


def _size(path: str) -> int:
    """Return what a tree takes on the disk, of any depth, no link followed; what may not be entered counts as nothing."""
    total = os.lstat(path).st_blocks * 512
    if os.path.islink(path) or not os.path.isdir(path):
        return total
    start = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    folders = [b"."]
    try:
        while folders:
            place = folders.pop()
            try:
                fd = kernel.open_below(start, place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            with os.scandir(fd) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(place + b"/" + os.fsencode(entry.name))
            os.close(fd)
    finally:
        os.close(start)
    return total
