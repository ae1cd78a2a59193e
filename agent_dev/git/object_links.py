"""Hard links to the user's objects: those that the user's git prunes stay available to the agent (decision 0005)."""

import errno
import os

from agent_dev.fs import checksummed_json
from agent_dev.fs.rmtree import remove_tree
from agent_dev.git.formats.ref_format import parse_alternates
from agent_dev.linux import streams

MIDX = "multi-pack-index"
_SMALL_FILE = 4096  # bytes; a ref is shorter
_MAX_PASSES = 20  # retries while the user's git repacks


def list_object_stores(first: str) -> list[str]:
    """Return an object store and its alternates, recursively."""
    stores = [first]
    for store in stores:
        for line in parse_alternates(read_file(f"{store}/info/alternates")):
            other = os.path.normpath(os.path.join(store, os.fsdecode(line)))
            if other not in stores:
                stores.append(other)
    return stores


def link_store(store: str, links_dir: str, outside: tuple[str, str]) -> str:
    """Hard-link a store's files into a new directory and return that.

    It is `links_dir`, or on another file system a directory next to the store: `outside` holds its name and the file that lists
    such directories. Return the store itself if the kernel refuses hard links, as for files of another owner.
    """
    dir_name, list_file = outside
    outside_dir = f"{os.path.dirname(store)}/agent-dev/{dir_name}"
    for target in (links_dir, outside_dir):
        try:
            if target == outside_dir:
                append_to_list(list_file, target)
            os.makedirs(target, 0o700)
            _link_store(store, target)
        except OSError as error:
            if os.path.isdir(target):
                remove_tree(target)
            if error.errno != errno.EXDEV:
                break
        else:
            return target
    return store


def append_to_list(path: str, directory: str) -> None:
    """Add a directory to a session's list of hard-linked objects on other file systems."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.write(fd, b"\n%b\n" % checksummed_json.dumps({"path": directory}))
    os.close(fd)


def _link_store(store: str, target: str) -> None:
    """Link loose objects before packs: an object that is packed in between is found in its pack."""
    for entry in list_directory(store):
        if entry.is_dir(follow_symlinks=False) and entry.name != "pack":
            os.mkdir(f"{target}/{entry.name}", 0o700)
            link_directory(entry.path, f"{target}/{entry.name}")
    if os.path.isdir(f"{store}/pack"):
        os.mkdir(f"{target}/pack", 0o700)
        _link_packs(f"{store}/pack", f"{target}/pack")


def _link_packs(source: str, target: str) -> None:
    if link_directory(source, target):
        return
    passes = 1
    while not link_directory(source, target) and passes < _MAX_PASSES:
        passes += 1  # removed packs were replaced by newer ones
    if os.path.lexists(f"{target}/{MIDX}"):
        os.unlink(f"{target}/{MIDX}")  # it may name removed packs


def link_directory(source: str, target: str) -> bool:
    """Hard-link the files of a directory tree into another one; return False if a file disappeared."""
    is_whole = True
    for entry in list_directory(source):
        link = f"{target}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            os.makedirs(link, 0o700, exist_ok=True)
            is_whole &= link_directory(entry.path, link)
        elif entry.is_file(follow_symlinks=False) and entry.name != "alternates":
            try:
                os.link(entry.path, link, follow_symlinks=False)
            except FileNotFoundError:
                is_whole = False
            except FileExistsError:
                continue
    return is_whole


def list_directory(folder: str) -> list[os.DirEntry[str]]:
    """Return a directory's entries sorted by name, none if it is missing."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def read_file(path: str) -> bytes:
    """Return a file's bytes; empty for a missing file and for a link."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    return streams.read_to_end(fd)


def read_small_files(folder: str, names: list[str]) -> dict[str, bytes]:
    """Return the bytes of small files of a directory by name, without those that disappeared."""
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = {}
    for name in names:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder_fd)
        except OSError:
            continue
        found[name] = os.read(fd, _SMALL_FILE)  # one read suffices for a small file
        os.close(fd)
    os.close(folder_fd)
    return found
