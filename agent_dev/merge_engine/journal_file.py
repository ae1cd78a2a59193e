"""Journal files, `merges/<id>/journal`, and the lock that serializes merges, undos and recoveries."""

import fcntl
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agent_dev.fs import durable
from agent_dev.git.updates import GitUpdate
from agent_dev.merge_engine import journal_codec
from agent_dev.merge_engine.journal import Journal, MergeHeader
from agent_dev.overlay.changes import Change
from agent_dev.session.store import Store

FILE_NAME = "journal"
_BUFFER = 1 << 20  # bytes of records that are written at once


class UnknownOutcomeError(Exception):
    """A record was written, but the disk failed to confirm that it is durable."""


class JournalFile:
    """A journal open for writing."""

    def __init__(self, folder: str) -> None:
        """Open or create the journal in a merge's folder; repair an incomplete last line."""
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._fd = durable.create(FILE_NAME.encode(), self._folder)
            fcntl.fcntl(self._fd, fcntl.F_SETFL, os.O_APPEND)  # else a hole would follow a record that was truncated
            self._chain = 0
            durable.fsync(self._folder)
        except FileExistsError:
            self._fd = os.open(FILE_NAME, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=self._folder)
            self._repair()

    def _repair(self) -> None:
        with open(f"/proc/self/fd/{self._fd}", "rb") as file:
            length, lacks_end, self._chain = journal_codec.inspect(file)
        if lacks_end:
            durable.write(self._fd, b"\n")
        elif length < os.fstat(self._fd).st_size:
            durable.truncate(self._fd, length)
        else:
            return
        durable.fsync(self._fd)

    def append(self, records: Iterable[Mapping[str, Any]], note: Callable[[bytes], None] | None = None) -> int:
        """Append records, durable on return; return the last one's checksum. `note` is called with each line.

        Raises OSError if nothing was written, else UnknownOutcomeError.
        """
        before = os.fstat(self._fd).st_size
        chain, buffer = self._chain, bytearray()
        try:
            for record in records:
                line = journal_codec.encode_line(record, chain)
                chain = journal_codec.line_checksum(line)
                buffer += line
                if len(buffer) >= _BUFFER:
                    durable.write(self._fd, bytes(buffer))
                    buffer.clear()
                if note is not None:
                    note(line)
            durable.write(self._fd, bytes(buffer))
        except (OSError, MemoryError) as error:
            try:
                durable.truncate(self._fd, before)
            except OSError:
                raise UnknownOutcomeError(getattr(error, "strerror", "out of memory")) from error
            raise
        try:
            durable.fsync(self._fd)
        except OSError as error:
            raise UnknownOutcomeError(error.strerror) from error
        self._chain = chain
        return chain

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
        os.close(self._folder)


def read_journal(folder: str, known: Iterable[Change] = ()) -> Journal:
    """Return a merge's journal, empty if it does not exist. Raises CorruptJournalError. `known`: see `journal_codec.decode`."""
    try:
        with open(f"{folder}/{FILE_NAME}", "rb") as file:
            return journal_codec.decode(file, known)
    except FileNotFoundError:
        return Journal()


def read_applied_updates(folder: str) -> tuple[GitUpdate, ...]:
    """Return the git updates of a merge, none unless it is applied. Raises CorruptJournalError or OSError."""
    with open(f"{folder}/{FILE_NAME}", "rb") as file:
        return journal_codec.read_applied_updates(file)


def read_header(folder: str) -> MergeHeader | None:
    """Return a journal's first record, with the stages as they were at first."""
    try:
        with open(f"{folder}/{FILE_NAME}", "rb") as file:
            return journal_codec.decode(io.BytesIO(file.readline())).header
    except FileNotFoundError:
        return None


@contextmanager
def merge_lock(store: Store, notice: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock of all merges in a state directory for the duration of the block; call `notice` if another process has it.

    A child process that inherits the descriptor keeps the lock until it exits.
    """
    os.makedirs(store.merges, 0o700, exist_ok=True)
    fd = os.open(store.merges, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notice("waiting for another merge to finish")
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)
