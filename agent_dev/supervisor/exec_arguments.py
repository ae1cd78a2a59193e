"""The words of a call, read from the caller's memory by few system calls: by one, where it is the next place on its PATH.

Who looks for a program along its PATH calls once for each place, thirty times and more, with the same words at the same
addresses, and waits for us each time. So it is kept where the words of a call lay, and what was there.
"""

import errno
import os
import struct
import sys

from agent_dev.linux import syscalls as kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Spans = list[tuple[int, bytes]]  # what lies at an address, from the first word to the end of the last

FEW, MANY = 64, 4096  # words
_PAGE = 4096  # bytes that are there or missing together; larger pages are made of such
_LONGEST_PATH, _USUAL_PATH = 4096, 512
_LONGEST_WORD, _MANY_BYTES = 4096, 1 << 18
_POINTER = 8  # bytes
_USUAL_POINTERS = 256  # bytes
_NULL = bytes(_POINTER)
_PIECE, _TWO_PIECES = struct.Struct("=QQ"), struct.Struct("=4Q")
_NEAR = 2 * _PAGE  # bytes
_SPANS, _MANY_HELD = 32, 1 << 14  # of words that can be found again: in how many pieces and bytes they lie
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # as os.fsdecode, which takes longer


class Words:
    """The words of a call, as they lay in the caller's memory; `is_cut`: there are more, or longer ones.

    Taken apart when somebody asks for them: the caller waits meanwhile, and for most calls nobody asks before it went on.
    """

    __slots__ = ("_address", "_argv", "_held", "_pieces", "_pointers", "_spans", "is_cut")

    def __init__(self, address: int, pointers: list[int], spans: "Spans", argv: "tuple[str, ...] | None" = None) -> None:
        self._address, self._pointers, self._spans, self._argv = address, pointers, spans, argv
        self._held = self._pieces = b""
        self.is_cut = False

    @property
    def argv(self) -> tuple[str, ...]:
        """The words."""
        if self._argv is None:
            start, piece = self._spans[0]
            places = [pointer - start for pointer in self._pointers]
            self._argv = _decoded([piece[at : piece.index(b"\0", at)] for at in places])
        return self._argv

    @property
    def first(self) -> bytes:
        """The first word: by what name the program is to call itself; empty where there is none."""
        if self._argv is not None:
            return os.fsencode(self._argv[0]) if self._argv else b""
        start, piece = self._spans[0]
        at = self._pointers[0] - start
        return piece[at : piece.index(b"\0", at)]

    def lie_at(self, address: int) -> bool:
        """Whether a call with its words at this address can be one with these."""
        return address == self._address and not self.is_cut and bool(self._spans)

    def as_bytes(self) -> tuple[bytes, bytes]:
        """Return what one reading must find, and of which pieces: made when a thread calls again, which few do."""
        if not self._pieces:
            pointers = struct.pack(f"={len(self._pointers) + 1}Q", *self._pointers, 0)
            spans = ((self._address, pointers), *self._spans)
            self._pieces = b"".join(_PIECE.pack(start, len(data)) for start, data in spans)
            self._held = b"".join(data for _, data in spans)
        return self._held, self._pieces


class Reader:
    """Reads what is called."""

    def __init__(self) -> None:
        self._memory = kernel.Memory()

    def again(self, words: Words, pid: int, path: int, address: int) -> bytes | None:
        """Return the path of a call whose words are these, at the same places; None where anything differs."""
        if not words.lie_at(address):
            return None
        held, pieces = words.as_bytes()
        try:
            found = self._memory.pieces(pid, pieces + _piece(path, _USUAL_PATH))
        except OSError:
            return None
        end = found.find(b"\0", len(held))
        return found[len(held) : end] if end >= 0 and found.startswith(held) else None

    def read(self, pid: int, path: int, address: int, most: int) -> tuple[bytes, Words]:
        """Return the path and up to `most` words. Raises OSError when they cannot be read."""
        return self._usual(pid, path, address) or self._any(pid, path, address, most)

    def _usual(self, pid: int, path: int, address: int) -> tuple[bytes, Words] | None:
        """Return what most calls have: a short path and a few words that lie close together; None of any other call."""
        size, room = _to_end_of_page(path, _USUAL_PATH), _to_end_of_page(address, _USUAL_POINTERS)
        try:
            data = self._memory.pieces(pid, _TWO_PIECES.pack(path, size, address, room))
        except OSError:
            return None
        end = data.find(b"\0", 0, size)
        last = (data.find(_NULL, size) - size + _POINTER - 1) // _POINTER * _POINTER  # its first bytes may be the last pointer's
        if end <= 0 or last <= 0 or data[size + last : size + last + _POINTER] != _NULL:
            return None
        pointers = memoryview(data)[size : size + last].cast("Q").tolist()
        words = self._near(pid, address, pointers)
        return None if words is None else (data[:end], words)

    def _any(self, pid: int, path: int, address: int, most: int) -> tuple[bytes, Words]:
        program, pointers = self._places(pid, path, address, most)
        if not pointers:
            return program, Words(address, pointers, [], ())
        words = self._near(pid, address, pointers) or self._far(pid, address, pointers)
        words.is_cut |= len(pointers) >= most
        return program, words

    def _places(self, pid: int, path: int, address: int, most: int) -> tuple[bytes, list[int]]:
        """Return the path, and where the words lie."""
        size = min(_USUAL_PATH, _PAGE - path % _PAGE)
        wanted = _PIECE.pack(path, size) + _piece(address, _POINTER * most)
        data = self._memory.pieces(pid, wanted) if path and address else b""
        end = data.find(b"\0", 0, size)
        pointers = self._pointers(pid, address, most, data[size:])
        if end < 0 and path:
            return self._memory.text(pid, path, _LONGEST_PATH), pointers
        return data[: max(end, 0)], pointers

    def _pointers(self, pid: int, address: int, most: int, page: bytes) -> list[int]:
        pointers: list[int] = []
        while address and len(pointers) < most:
            if pointers or len(page) < _POINTER:
                here = address + _POINTER * len(pointers)
                size = _to_end_of_page(here, _POINTER * (most - len(pointers)))
                page = self._memory.pieces(pid, _PIECE.pack(here, max(size, _POINTER)))  # one may lie on both sides of the end
            found = memoryview(page[: len(page) // _POINTER * _POINTER]).cast("Q").tolist()
            if 0 in found:
                return pointers + found[: found.index(0)]
            pointers += found
            if not found:
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return pointers

    def _near(self, pid: int, address: int, pointers: list[int]) -> Words | None:
        """Return words that lie close together, as most do; None where they do not, or one may be long."""
        start, last = min(pointers), max(pointers)
        size = _end_of_page(last) - start
        if size > _NEAR:
            return None
        try:
            piece = self._memory.pieces(pid, _PIECE.pack(start, size))
        except OSError:
            return None
        end = piece.find(b"\0", last - start)
        if end < 0 or (size > _LONGEST_WORD and _has_long(piece, [pointer - start for pointer in pointers])):
            return None
        return Words(address, pointers, [(start, piece[: end + 1])])

    def _far(self, pid: int, address: int, pointers: list[int]) -> Words:
        """Return words wherever they lie."""
        groups = _neighbours(pointers)
        sizes = [_end_of_page(group[-1]) - group[0] for group in groups]
        pieces = b"".join(_PIECE.pack(group[0], size) for group, size in zip(groups, sizes, strict=True))
        try:
            data = self._memory.pieces(pid, pieces[: _PIECE.size * kernel.Memory.MOST])
        except OSError:
            data = b""  # the first is missing; it is met again below, if it is one that counts
        found: dict[int, bytes] = {}
        spans: Spans = []
        at = 0
        for group, size in zip(groups, sizes, strict=True):
            piece = data[at : at + size]
            at += size
            for pointer in group:
                found[pointer] = self._word(pid, pointer, piece, pointer - group[0])
            last = group[-1] - group[0]
            if last <= len(piece):
                spans.append((group[0], piece[:last] + found[group[-1]] + b"\0"))
        is_known = len(spans) == len(groups) <= _SPANS and sum(len(data) for _, data in spans) <= _MANY_HELD
        argv, is_cut = _bounded(found[pointer] for pointer in pointers)
        words = Words(address, pointers, spans if is_known else [], _decoded(argv))
        words.is_cut = is_cut
        return words

    def _word(self, pid: int, address: int, piece: bytes, at: int) -> bytes:
        end = piece.find(b"\0", at)
        return piece[at : min(end, at + _LONGEST_WORD)] if end >= 0 else self._memory.text(pid, address, _LONGEST_WORD)


def _has_long(piece: bytes, places: list[int]) -> bool:
    return any(piece.find(b"\0", at, at + _LONGEST_WORD) < 0 for at in places)


def _decoded(words: list[bytes]) -> tuple[str, ...]:
    return tuple(b"\0".join(words).decode(_ENCODING, _ERRORS).split("\0")) if words else ()


def _end_of_page(address: int) -> int:
    return (address | _PAGE - 1) + 1


def _to_end_of_page(address: int, most: int) -> int:
    """Return `most`, or as many bytes as there are up to the page's end: what lies behind it may be missing."""
    return min(most, _PAGE - address % _PAGE)


def _piece(address: int, most: int) -> bytes:
    return _PIECE.pack(address, _to_end_of_page(address, most))


def _neighbours(pointers: list[int]) -> list[list[int]]:
    """Return addresses in groups, each in order, whose pages lie side by side: a group can be read at once."""
    groups: list[list[int]] = []
    for pointer in sorted(set(pointers)):
        if groups and pointer < _end_of_page(groups[-1][-1]) + _PAGE:
            groups[-1].append(pointer)
        else:
            groups.append([pointer])
    return groups


def _bounded(words: "Iterable[bytes]") -> tuple[list[bytes], bool]:
    """Return as many words as may be kept, and whether any was left out or is longer than that."""
    kept: list[bytes] = []
    left = _MANY_BYTES
    is_cut = False
    for word in words:
        left -= len(word)
        if left < 0:
            return kept, True
        is_cut |= len(word) >= _LONGEST_WORD
        kept.append(word)
    return kept, is_cut
