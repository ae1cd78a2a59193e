"""Read the arguments of an execve from the caller's memory in few system calls; in one for a repeated PATH lookup.

A program that searches PATH calls execve for each directory, thirty times and more, with the same arguments at the same
addresses, and waits each time. So the addresses and contents of a call's arguments are cached.
"""

import errno
import os
import struct
import sys

from agent_dev.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Spans = list[tuple[int, bytes]]  # address and content, from the first argument to the end of the last

USUAL_ARGUMENTS, MAX_ARGUMENTS = 64, 4096  # arguments
_PAGE = 4096  # bytes: the unit in which memory is mapped; larger pages are multiples
_MAX_PATH, _USUAL_PATH = 4096, 512
_MAX_ARGUMENT, _MAX_TOTAL = 4096, 1 << 18
_POINTER = 8  # bytes
_USUAL_POINTERS = 256  # bytes
_NULL = bytes(_POINTER)
_SEGMENT, _TWO_SEGMENTS = struct.Struct("=QQ"), struct.Struct("=4Q")
_NEAR_SIZE = 2 * _PAGE  # bytes
_MAX_SPANS, _MAX_KEPT = 32, 1 << 14  # limits for repeated lookups: number of spans, bytes
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # faster than os.fsdecode, with the same result


class ExecArguments:
    """The arguments of a call, with their layout in the caller's memory; `is_truncated`: some are missing or truncated.

    They are split only on demand: the caller waits, and most calls are allowed without it.
    """

    __slots__ = ("_address", "_argv", "_contents", "_pointers", "_segments", "_spans", "is_truncated")

    def __init__(self, address: int, pointers: list[int], spans: "Spans", argv: "tuple[str, ...] | None" = None) -> None:
        self._address, self._pointers, self._spans, self._argv = address, pointers, spans, argv
        self._contents = self._segments = b""
        self.is_truncated = False

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments."""
        if self._argv is None:
            start, data = self._spans[0]
            offsets = [pointer - start for pointer in self._pointers]
            self._argv = _decode([data[offset : data.index(b"\0", offset)] for offset in offsets])
        return self._argv

    @property
    def first(self) -> bytes:
        """The first argument, argv[0]; empty if there is none."""
        if self._argv is not None:
            return os.fsencode(self._argv[0]) if self._argv else b""
        start, data = self._spans[0]
        offset = self._pointers[0] - start
        return data[offset : data.index(b"\0", offset)]

    def may_repeat_at(self, address: int) -> bool:
        """Return whether a call with its arguments at this address may repeat this one."""
        return address == self._address and not self.is_truncated and bool(self._spans)

    def expected_segments(self) -> tuple[bytes, bytes]:
        """Return the expected content and the segments to read; computed for a repeated call only."""
        if not self._segments:
            pointers = struct.pack(f"={len(self._pointers) + 1}Q", *self._pointers, 0)
            spans = ((self._address, pointers), *self._spans)
            self._segments = b"".join(_SEGMENT.pack(start, len(data)) for start, data in spans)
            self._contents = b"".join(data for _, data in spans)
        return self._contents, self._segments


class ArgumentReader:
    """Reads the path and arguments of a call."""

    def __init__(self) -> None:
        self._memory = syscalls.ProcessMemory()

    def read_repeated(self, words: ExecArguments, pid: int, path: int, address: int) -> bytes | None:
        """Return the path of a call that repeats these arguments at the same addresses; None if anything differs."""
        if not words.may_repeat_at(address):
            return None
        expected, segments = words.expected_segments()
        try:
            found = self._memory.read_segments(pid, segments + _segment(path, _USUAL_PATH))
        except OSError:
            return None
        end = found.find(b"\0", len(expected))
        return found[len(expected) : end] if end >= 0 and found.startswith(expected) else None

    def read(self, pid: int, path: int, address: int, max_count: int) -> tuple[bytes, ExecArguments]:
        """Return the path and up to `max_count` arguments. Raises OSError when they cannot be read."""
        return self._read_usual(pid, path, address) or self._read_any(pid, path, address, max_count)

    def _read_usual(self, pid: int, path: int, address: int) -> tuple[bytes, ExecArguments] | None:
        """Return a short path and a few arguments that lie close together, as in most calls; None for other calls."""
        size, pointers_size = _to_end_of_page(path, _USUAL_PATH), _to_end_of_page(address, _USUAL_POINTERS)
        try:
            data = self._memory.read_segments(pid, _TWO_SEGMENTS.pack(path, size, address, pointers_size))
        except OSError:
            return None
        end = data.find(b"\0", 0, size)
        last = (
            (data.find(_NULL, size) - size + _POINTER - 1) // _POINTER * _POINTER
        )  # its first bytes may belong to the last pointer
        if end <= 0 or last <= 0 or data[size + last : size + last + _POINTER] != _NULL:
            return None
        pointers = memoryview(data)[size : size + last].cast("Q").tolist()
        words = self._read_near(pid, address, pointers)
        return None if words is None else (data[:end], words)

    def _read_any(self, pid: int, path: int, address: int, max_count: int) -> tuple[bytes, ExecArguments]:
        program, pointers = self._path_and_pointers(pid, path, address, max_count)
        if not pointers:
            return program, ExecArguments(address, pointers, [], ())
        words = self._read_near(pid, address, pointers) or self._read_far(pid, address, pointers)
        words.is_truncated |= len(pointers) >= max_count
        return program, words

    def _path_and_pointers(self, pid: int, path: int, address: int, max_count: int) -> tuple[bytes, list[int]]:
        """Return the path and the addresses of the arguments."""
        size = min(_USUAL_PATH, _PAGE - path % _PAGE)
        wanted = _SEGMENT.pack(path, size) + _segment(address, _POINTER * max_count)
        data = self._memory.read_segments(pid, wanted) if path and address else b""
        end = data.find(b"\0", 0, size)
        pointers = self._read_pointers(pid, address, max_count, data[size:])
        if end < 0 and path:
            return self._memory.read_string(pid, path, _MAX_PATH), pointers
        return data[: max(end, 0)], pointers

    def _read_pointers(self, pid: int, address: int, max_count: int, page: bytes) -> list[int]:
        pointers: list[int] = []
        while address and len(pointers) < max_count:
            if pointers or len(page) < _POINTER:
                here = address + _POINTER * len(pointers)
                size = _to_end_of_page(here, _POINTER * (max_count - len(pointers)))
                page = self._memory.read_segments(
                    pid, _SEGMENT.pack(here, max(size, _POINTER))
                )  # a pointer may cross the page boundary
            found = memoryview(page[: len(page) // _POINTER * _POINTER]).cast("Q").tolist()
            if 0 in found:
                return pointers + found[: found.index(0)]
            pointers += found
            if not found:
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return pointers

    def _read_near(self, pid: int, address: int, pointers: list[int]) -> ExecArguments | None:
        """Return arguments that lie close together, as usual; None if they do not, or if one may be too long."""
        start, last = min(pointers), max(pointers)
        size = _end_of_page(last) - start
        if size > _NEAR_SIZE:
            return None
        try:
            data = self._memory.read_segments(pid, _SEGMENT.pack(start, size))
        except OSError:
            return None
        end = data.find(b"\0", last - start)
        if end < 0 or (size > _MAX_ARGUMENT and _has_long_argument(data, [pointer - start for pointer in pointers])):
            return None
        return ExecArguments(address, pointers, [(start, data[: end + 1])])

    def _read_far(self, pid: int, address: int, pointers: list[int]) -> ExecArguments:
        """Return arguments at any addresses."""
        groups = _group_by_page(pointers)
        sizes = [_end_of_page(group[-1]) - group[0] for group in groups]
        pieces = b"".join(_SEGMENT.pack(group[0], size) for group, size in zip(groups, sizes, strict=True))
        try:
            data = self._memory.read_segments(pid, pieces[: _SEGMENT.size * syscalls.ProcessMemory.MAX_SEGMENTS])
        except OSError:
            data = b""  # the first is missing; read again below
        found: dict[int, bytes] = {}
        spans: Spans = []
        offset = 0
        for group, size in zip(groups, sizes, strict=True):
            chunk = data[offset : offset + size]
            offset += size
            for pointer in group:
                found[pointer] = self._argument_at(pid, pointer, chunk, pointer - group[0])
            last = group[-1] - group[0]
            if last <= len(chunk):
                spans.append((group[0], chunk[:last] + found[group[-1]] + b"\0"))
        is_known = len(spans) == len(groups) <= _MAX_SPANS and sum(len(data) for _, data in spans) <= _MAX_KEPT
        argv, is_cut = _truncate(found[pointer] for pointer in pointers)
        words = ExecArguments(address, pointers, spans if is_known else [], _decode(argv))
        words.is_truncated = is_cut
        return words

    def _argument_at(self, pid: int, address: int, data: bytes, offset: int) -> bytes:
        end = data.find(b"\0", offset)
        return (
            data[offset : min(end, offset + _MAX_ARGUMENT)] if end >= 0 else self._memory.read_string(pid, address, _MAX_ARGUMENT)
        )


def _has_long_argument(data: bytes, offsets: list[int]) -> bool:
    return any(data.find(b"\0", offset, offset + _MAX_ARGUMENT) < 0 for offset in offsets)


def _decode(words: list[bytes]) -> tuple[str, ...]:
    return tuple(b"\0".join(words).decode(_ENCODING, _ERRORS).split("\0")) if words else ()


def _end_of_page(address: int) -> int:
    return (address | _PAGE - 1) + 1


def _to_end_of_page(address: int, max_count: int) -> int:
    """Return `max_count`, or the number of bytes up to the page's end if that is smaller: the next page may be missing."""
    return min(max_count, _PAGE - address % _PAGE)


def _segment(address: int, max_count: int) -> bytes:
    return _SEGMENT.pack(address, _to_end_of_page(address, max_count))


def _group_by_page(pointers: list[int]) -> list[list[int]]:
    """Group sorted addresses on adjacent pages, so that each group can be read in one segment."""
    groups: list[list[int]] = []
    for pointer in sorted(set(pointers)):
        if groups and pointer < _end_of_page(groups[-1][-1]) + _PAGE:
            groups[-1].append(pointer)
        else:
            groups.append([pointer])
    return groups


def _truncate(words: "Iterable[bytes]") -> tuple[list[bytes], bool]:
    """Return the arguments within the size limits, and whether any was dropped or truncated."""
    kept: list[bytes] = []
    bytes_left = _MAX_TOTAL
    is_cut = False
    for argument in words:
        bytes_left -= len(argument)
        if bytes_left < 0:
            return kept, True
        is_cut |= len(argument) >= _MAX_ARGUMENT
        kept.append(argument)
    return kept, is_cut
