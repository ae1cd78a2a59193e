"""Store directories of a merged session in one file; the next command that opens the session restores them.

A private git directory has forty small files, and its hard links to the user's objects grow with each import. While the archive
exists, it alone is valid: what is at the paths of its directories was left by a killed process. So a kill loses nothing.
"""

import errno
import os
import time
import zlib
from itertools import accumulate
from typing import Any

from agent_dev.checkpoint import node_table, restore, restore_plan, snapshot
from agent_dev.checkpoint.restore_plan import Node
from agent_dev.errors import UnreadableSession
from agent_dev.fs import background_removal, checksummed_json, dir_tree, durable, fast_json, state_files
from agent_dev.fs.rmtree import remove_tree
from agent_dev.git import object_links
from agent_dev.linux import streams
from agent_dev.session import store

MAX_SIZE = 32 << 20  # bytes of all files: an archive is read and written in memory
_VERSION = 1
_LEVEL = 1  # of compression; most files are objects of git, which are compressed
_TEMP = b"archive.files"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def store_directories(session: store.Session, parts: tuple[str, ...], links: dict[str, str]) -> bool:
    """Replace directories of a locked session by its archive; return False and change nothing if they cannot be stored.

    Older programs refuse the session while it has an archive. `parts`: paths in the session's directory, which are no symlinks;
    `links`: the paths there of directories with hard links, and the directory whose files each links to. Raises OSError.
    """
    if os.path.lexists(f"{session.folder}/{store.ARCHIVE}"):
        return False  # of another cleaning, which was killed before it had moved all directories out
    data = _encode(session, parts, links)
    if not data:
        return False
    store.write_record(session, {**store.read_record(session), "archived": True}, is_durable=True)
    state_files.replace_file(f"{session.folder}/{store.ARCHIVE}", data, is_durable=True)
    durable.sync_path(session.folder)
    state = os.path.dirname(os.path.dirname(session.folder))
    aside = background_removal.make_removal_directory(f"{state}/gone", f"{session.id}.archived")
    for number, path in enumerate((*parts, *links)):
        os.rename(f"{session.folder}/{path}", f"{aside}/{number}")
    background_removal.remove_in_background(aside)
    return True


def _encode(session: store.Session, parts: tuple[str, ...], links: dict[str, str]) -> bytes:
    """Return the bytes of an archive, none if a file is unreadable or all are too large."""
    contents = _Contents()
    tables = []
    for part in parts:
        try:
            taken = snapshot.take_snapshot(f"{session.folder}/{part}", contents.add, {}, time.time_ns(), may_fork=False)
        except OSError as error:
            if error.errno == errno.EFBIG:
                return b""
            raise
        if taken.problems:
            return b""
        tables.append(node_table.encode_table(taken.pieces))
    header = {
        "version": _VERSION,
        "parts": [[part, len(table)] for part, table in zip(parts, tables, strict=True)],
        "contents": [len(data) for data in contents.found],
        "links": links,
    }
    rest = zlib.compress(b"".join((*tables, *contents.found)), _LEVEL)
    return checksummed_json.add_checksum(b"".join((fast_json.dumps(header), b"\n", rest)))


class _Contents:
    """The contents of files; each has its number as its name: digests would take more space than many small files."""

    def __init__(self) -> None:
        self.found: list[bytes] = []
        self._size = 0

    def add(self, fd: int, size: int) -> tuple[str, int]:
        """Read a file of `size` bytes; return its name here and its size. Raises OSError (EFBIG) if all are too large."""
        self._size += size
        if self._size > MAX_SIZE:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        self.found.append(dir_tree.read_all(fd, size))
        return str(len(self.found) - 1), size


def restore_directories(session: store.Session) -> None:
    """Restore the directories of a locked session from its archive, if it has one. Raises UnreadableSession, OSError."""
    path = f"{session.folder}/{store.ARCHIVE}"
    try:
        data = state_files.read_file(path)
    except FileNotFoundError:
        return
    header, tables, contents = _decode(session, data)
    for part, table in tables.items():
        _restore(session, part, node_table.all_nodes(node_table.decode_table(table)), contents)
    for link, source in header["links"].items():
        _link(session, link, source)
    durable.sync_file_system_of(session.folder)
    os.unlink(path)
    durable.sync_path(session.folder)  # with newer files next to it, the archive would replace them
    record = store.read_record(session)
    record.pop("archived", None)
    store.write_record(session, record, is_durable=True)


def _decode(session: store.Session, data: bytes) -> tuple[dict[str, Any], dict[str, bytes], dict[str, memoryview]]:
    """Return an archive's header, its tables by part, and its contents by name. Raises UnreadableSession."""
    try:
        line = checksummed_json.verify(data).index(b"\n")
        header: Any = fast_json.loads(data[:line])
        version = header["version"]
        rest = memoryview(zlib.decompress(data[line + 1 :]) if version == _VERSION else b"")
    except (ValueError, LookupError, TypeError, zlib.error):
        raise _failure(session, f"{store.ARCHIVE} is damaged") from None
    if version != _VERSION:
        raise _failure(session, f"{store.ARCHIVE} has version {version}, this version of agent-dev reads {_VERSION}")
    sizes = [*(size for _, size in header["parts"]), *header["contents"]]
    pieces = [rest[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]
    count = len(header["parts"])
    tables = {part: bytes(table) for (part, _), table in zip(header["parts"], pieces[:count], strict=True)}
    return header, tables, {str(number): piece for number, piece in enumerate(pieces[count:])}


def _failure(session: store.Session, reason: str) -> UnreadableSession:
    name = store.session_name(session)
    return UnreadableSession(session=name, reason=reason, hint=f"agent-dev discard {name}")


def _restore(session: store.Session, part: str, nodes: dict[str, Node], contents: dict[str, memoryview]) -> None:
    """Create a directory from its nodes. Raises UnreadableSession, OSError."""
    path = f"{session.folder}/{part}"
    remove_tree(path)
    durable.mkdir_path(path)
    folder, root = os.open(session.folder, _OPEN), os.open(path, _OPEN)
    temp = restore.create_temp_folder(folder, _TEMP)
    try:
        context = restore.RestoreContext(root, temp, lambda node: streams.memory_file(contents[node.content]))
        empty = {"": nodes[""]._replace(attributes="unknown")}
        restore.restore_nodes(restore_plan.plan_restore(empty, nodes), context)
    finally:
        restore.remove_temp_folder(folder, _TEMP, temp)
        os.close(root)
        os.close(folder)
    if context.problems:
        raise _failure(session, context.problems[0])


def _link(session: store.Session, link: str, source: str) -> None:
    """Link the files of a directory again; where the kernel refuses hard links, a symlink leads to it."""
    target = f"{session.folder}/{link}"
    os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
    remove_tree(target)
    elsewhere = (f"{session.id}-{os.path.basename(link)}", f"{os.path.dirname(target)}.elsewhere")
    made = object_links.link_store(source, target, elsewhere)
    if made != target:
        os.symlink(made, target)
