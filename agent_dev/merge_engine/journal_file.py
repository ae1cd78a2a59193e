"""Journals on disk, `merges/<id>/journal`, and the lock under which one merge, undo or recovery at a time works."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agent_dev.fs import durable as disk
from agent_dev.merge_engine import journal_codec as records
from agent_dev.merge_engine.journal import Begin, Journal
from agent_dev.session.store import Store

JOURNAL = "journal"


class UnknownOutcomeError(Exception):
    """A record was written, but whether it is durable the disk does not say."""


class JournalFile:
    """A journal that is being written."""

    def __init__(self, folder: str) -> None:
        """Open the journal of a merge's folder; it is made when it is not there, mended when a crash tore it."""
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._fd = disk.create(JOURNAL.encode(), self._folder)
            self._chain = 0
            disk.fsync(self._folder)
        except FileExistsError:
            self._fd = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=self._folder)
            self._mend()

    def _mend(self) -> None:
        with open(f"/proc/self/fd/{self._fd}", "rb") as file:
            data = file.read()
        whole, lacks_end = records.torn(data)
        self._chain = records.read(data).chain
        if lacks_end:
            disk.write(self._fd, b"\n")
        elif whole < len(data):
            disk.truncate(self._fd, whole)
        else:
            return
        disk.fsync(self._fd)

    def add(self, *rows: Mapping[str, Any]) -> list[bytes]:
        """Write records, durable on return; return their lines.

        Raises OSError when nothing was written, else UnknownOutcomeError.
        """
        before = os.fstat(self._fd).st_size
        lines, chain = [], self._chain
        for row in rows:
            lines.append(records.line(row, chain))
            chain = records.chain_of(lines[-1])
        try:
            disk.write(self._fd, b"".join(lines))
        except OSError as error:
            try:
                disk.truncate(self._fd, before)
            except OSError:
                raise UnknownOutcomeError(error.strerror) from error
            raise
        try:
            disk.fsync(self._fd)
        except OSError as error:
            raise UnknownOutcomeError(error.strerror) from error
        self._chain = chain
        return lines

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
        os.close(self._folder)


def read(folder: str) -> Journal:
    """Return what a merge's journal says; an empty one where none was begun. Raises CorruptJournalError."""
    try:
        with open(f"{folder}/{JOURNAL}", "rb") as file:
            return records.read(file.read())
    except FileNotFoundError:
        return Journal()


def first(folder: str) -> Begin | None:
    """Return what a journal's first record says, before anything moved."""
    try:
        with open(f"{folder}/{JOURNAL}", "rb") as file:
            return records.read(file.readline()).begin
    except FileNotFoundError:
        return None


@contextmanager
def alone(store: Store, notice: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock of all merging in a state directory; `notice` is told when another has it. It ends with its process.

    The descriptor it gives may be left to a program that must have ended before anybody else works.
    """
    os.makedirs(store.merges, 0o700, exist_ok=True)
    fd = os.open(store.merges, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notice("another merge is under way; waiting for its end")
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)
