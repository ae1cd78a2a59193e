"""The user's objects as hard links of ours: what the user's git throws away is still there for the agent (decision 0005)."""

import errno
import os

from agent_dev.fs.rmtree import remove_tree
from agent_dev.git.formats.ref_format import alternates

MIDX = "multi-pack-index"
_SMALL = 4096  # bytes: more than a ref holds
_PASSES = 20  # over the packs, while the user's git replaces them


def object_stores(first: str) -> list[str]:
    """Return an object store and all that it borrows from, through others too."""
    stores = [first]
    for store in stores:
        for line in alternates(read(f"{store}/info/alternates")):
            other = os.path.normpath(os.path.join(store, os.fsdecode(line)))
            if other not in stores:
                stores.append(other)
    return stores


def grow(store: str, farm: str, beside: tuple[str, str]) -> str:
    """Return a directory of hard links to a store's files.

    It is `farm`, or where that is on another file system one next to the store: `beside` has its name, and the file in which
    it is noted first. It is the store itself where the kernel allows no links, as to files of another owner.
    """
    name, note = beside
    elsewhere = f"{os.path.dirname(store)}/agent-dev/{name}"
    for place in (farm, elsewhere):
        try:
            if place == elsewhere:
                _append(note, os.fsencode(place) + b"\0")
            os.makedirs(place, 0o700)
            _link_store(store, place)
        except OSError as error:
            if os.path.isdir(place):
                remove_tree(place)
            if error.errno != errno.EXDEV:
                break
        else:
            return place
    return store


def _append(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.write(fd, data)
    os.close(fd)


def _link_store(store: str, farm: str) -> None:
    """Link what is loose before what is packed: an object that is packed meanwhile is found there."""
    for entry in entries(store):
        if entry.is_dir(follow_symlinks=False) and entry.name != "pack":
            os.mkdir(f"{farm}/{entry.name}", 0o700)
            link_files(entry.path, f"{farm}/{entry.name}")
    if os.path.isdir(f"{store}/pack"):
        os.mkdir(f"{farm}/pack", 0o700)
        _link_packs(f"{store}/pack", f"{farm}/pack")


def _link_packs(source: str, farm: str) -> None:
    if link_files(source, farm):
        return
    passes = 1
    while not link_files(source, farm) and passes < _PASSES:
        passes += 1  # what went is in a newer pack
    if os.path.lexists(f"{farm}/{MIDX}"):
        os.unlink(f"{farm}/{MIDX}")  # it may name packs that went


def link_files(source: str, farm: str) -> bool:
    """Link the files of a directory and of those below it into another; return False when one went meanwhile."""
    is_whole = True
    for entry in entries(source):
        place = f"{farm}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            os.makedirs(place, 0o700, exist_ok=True)
            is_whole &= link_files(entry.path, place)
        elif entry.is_file(follow_symlinks=False) and entry.name != "alternates":
            try:
                os.link(entry.path, place, follow_symlinks=False)
            except FileNotFoundError:
                is_whole = False
            except FileExistsError:
                continue
    return is_whole


def entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a directory by name, nothing for none."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def read(path: str) -> bytes:
    """Return the bytes of a file, nothing for none and for a link."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    data = b""
    while piece := os.read(fd, 1 << 20):
        data += piece
    os.close(fd)
    return data


def read_files(folder: str, names: list[str]) -> dict[str, bytes]:
    """Return the bytes of small files of a directory by name; of those that went meanwhile nothing is told."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = {}
    for name in names:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
        except OSError:
            continue
        found[name] = os.read(fd, _SMALL)  # one call less for each than to its end
        os.close(fd)
    os.close(here)
    return found
