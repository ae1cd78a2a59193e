"""The history of a session's output: the last 64 to 128 KiB, and the terminal modes in force before them.

It is in memory that the attach server shares with one client at a time, so it survives a killed client. Two banks are filled in
turn. A value in the header changes only after the bytes that it describes.
"""

import mmap
import os

from agent_dev.sandbox.attaching.output_modes import modes_after

BANK = 1 << 16  # bytes
_MODES = 1 << 13  # bytes for modes, more than `modes_after` returns
_CURRENT, _LENGTH, _SLOT, _MODES_LENGTH = 0, 1, 3, 4  # in the header, in words; lengths of two banks, of two slots of modes
_HEADER = 64  # bytes
_BANKS = _HEADER + 2 * _MODES
_SIZE = _BANKS + 2 * BANK


def create_memory() -> int:
    """Return the descriptor of an empty history."""
    fd = os.memfd_create("agent-dev-history", os.MFD_CLOEXEC)
    os.ftruncate(fd, _SIZE)
    return fd


class History:
    """The history in the memory of a descriptor, which can be closed afterwards."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, _SIZE)
        self._header = memoryview(self._memory)[:_HEADER].cast("Q")

    def add(self, data: bytes | memoryview) -> None:
        """Add output."""
        while data:
            bank = self._header[_CURRENT]
            length = self._header[_LENGTH + bank]
            part = data[: BANK - length]
            start = _BANKS + bank * BANK + length
            self._memory[start : start + len(part)] = part
            self._header[_LENGTH + bank] = length + len(part)
            data = data[len(part) :]
            if data:
                self._switch(bank)

    def _switch(self, bank: int) -> None:
        """Drop the older bank, after adding its modes to those in force before it, and continue there."""
        older, slot = 1 - bank, 1 - self._header[_SLOT]
        modes = modes_after(self.modes() + self._read(older))[:_MODES]
        start = _HEADER + slot * _MODES
        self._memory[start : start + len(modes)] = modes
        self._header[_MODES_LENGTH + slot] = len(modes)
        self._header[_SLOT] = slot
        self._header[_LENGTH + older] = 0
        self._header[_CURRENT] = older

    def modes(self) -> bytes:
        """Return the sequences of the modes in force before `output`."""
        slot = self._header[_SLOT]
        start = _HEADER + slot * _MODES
        return self._memory[start : start + self._header[_MODES_LENGTH + slot]]

    def output(self) -> bytes:
        """Return the recent output; if older output was dropped, from the beginning of a line."""
        bank = self._header[_CURRENT]
        older = self._read(1 - bank)
        if self._header[_MODES_LENGTH] or self._header[_MODES_LENGTH + 1] or len(older) == BANK:
            older = older[older.find(b"\n") + 1 :]
        return older + self._read(bank)

    def _read(self, bank: int) -> bytes:
        start = _BANKS + bank * BANK
        return self._memory[start : start + self._header[_LENGTH + bank]]
