"""The words of a call, read from the caller's memory by few system calls: by one, where it is the next place on its PATH.

Who looks for a program along its PATH calls once for each place, thirty times and more, with the same words at the same
addresses, and waits for us each time. So it is remembered where the words of a thread's last call lay, and what was there.
"""

import struct
import sys

from agent_dev.host import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Spans = list[tuple[int, bytes]]  # what lies at an address, from the first word to the end of the last
    Words = tuple[tuple[str, ...], bool]  # and whether there are more, or longer ones

FEW, MANY = 64, 4096  # words
_PAGE = 4096  # bytes that are there or missing together; larger pages are made of such
_LONGEST_PATH, _USUAL_PATH = 4096, 512
_LONGEST_WORD, _MANY_BYTES = 4096, 1 << 18
_POINTER = 8  # bytes
_PIECE = struct.Struct("=QQ")
_NEAR = 2 * _PAGE  # bytes
_CALLERS, _SPANS, _MANY_HELD = 64, 32, 1 << 14  # that are remembered; of each, in how many pieces and bytes
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # as os.fsdecode, which takes longer


class _Known:
    """What a thread called last: where the pointers were and what they were, what lay at which address, the words."""

    __slots__ = ("_held", "_pieces", "_pointers", "_spans", "address", "words")

    def __init__(self, address: int, pointers: list[int], spans: "Spans", words: "Words") -> None:
        self.address, self._pointers, self._spans, self.words = address, pointers, spans, words
        self._held = self._pieces = b""

    def as_bytes(self) -> tuple[bytes, bytes]:
        """Return what one reading must find, and of which pieces: made when a thread calls again, which few do."""
        if not self._pieces:
            pointers = struct.pack(f"={len(self._pointers) + 1}Q", *self._pointers, 0)
            spans = ((self.address, pointers), *self._spans)
            self._pieces = b"".join(_PIECE.pack(start, len(data)) for start, data in spans)
            self._held = b"".join(data for _, data in spans)
        return self._held, self._pieces


class Reader:
    """Reads what is called."""

    def __init__(self) -> None:
        self._memory = kernel.Memory()
        self._known: dict[int, _Known] = {}  # by thread

    def again(self, pid: int, path: int, address: int) -> "tuple[bytes, Words] | None":
        """Return path and words where a thread calls with the words of its last call; None where anything differs."""
        known = self._known.get(pid)
        if known is None or known.address != address:
            return None
        held, pieces = known.as_bytes()
        try:
            found = self._memory.pieces(pid, pieces + _piece(path, _USUAL_PATH))
        except OSError:
            return None
        end = found.find(b"\0", len(held))
        return (found[len(held) : end], known.words) if end >= 0 and found.startswith(held) else None

    def read(self, pid: int, path: int, address: int, most: int) -> "tuple[bytes, Words]":
        """Return the path and up to `most` words. Raises OSError when they cannot be read."""
        program, pointers = self._places(pid, path, address, most)
        argv, is_cut, spans = self._near(pid, pointers) or self._far(pid, pointers)
        is_cut |= len(pointers) >= most
        words = (tuple(b"\0".join(argv).decode(_ENCODING, _ERRORS).split("\0")) if argv else ()), is_cut
        if spans and not is_cut:
            if len(self._known) >= _CALLERS:
                self._known.clear()
            self._known[pid] = _Known(address, pointers, spans, words)
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
            if pointers or not page:
                page = self._memory.pieces(pid, _piece(address + _POINTER * len(pointers), _POINTER * (most - len(pointers))))
            found = memoryview(page[: len(page) // _POINTER * _POINTER]).cast("Q").tolist()
            if 0 in found:
                return pointers + found[: found.index(0)]
            pointers += found
            if not found:
                break
        return pointers

    def _near(self, pid: int, pointers: list[int]) -> "tuple[list[bytes], bool, Spans] | None":
        """Return words that lie close together, as most do; None where they do not, or one is long."""
        start = min(pointers, default=0)
        size = _end_of_page(max(pointers, default=0)) - start
        if size > _NEAR or not pointers:
            return None
        try:
            piece = self._memory.pieces(pid, _PIECE.pack(start, size))
        except OSError:
            return None
        words: list[bytes] = []
        last = 0
        for pointer in pointers:
            at = pointer - start
            end = piece.find(b"\0", at, at + _LONGEST_WORD)
            if end < 0:
                return None
            words.append(piece[at:end])
            last = max(last, end)
        return words, False, [(start, piece[: last + 1])]

    def _far(self, pid: int, pointers: list[int]) -> "tuple[list[bytes], bool, Spans]":
        """Return words wherever they lie, whether there are more or longer ones, and no spans where these are not all known."""
        groups = _neighbours(pointers)
        sizes = [_end_of_page(group[-1]) - group[0] for group in groups]
        pieces = b"".join(_PIECE.pack(group[0], size) for group, size in zip(groups, sizes, strict=True))
        try:
            data = self._memory.pieces(pid, pieces[: _PIECE.size * kernel.Memory.MOST]) if pieces else b""
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
        return *_bounded(found[pointer] for pointer in pointers), spans if is_known else []

    def _word(self, pid: int, address: int, piece: bytes, at: int) -> bytes:
        end = piece.find(b"\0", at)
        return piece[at : min(end, at + _LONGEST_WORD)] if end >= 0 else self._memory.text(pid, address, _LONGEST_WORD)


def _end_of_page(address: int) -> int:
    return (address | _PAGE - 1) + 1


def _piece(address: int, most: int) -> bytes:
    """Return a piece of `most` bytes that does not go past a page's end: what lies there may be missing."""
    return _PIECE.pack(address, min(most, _PAGE - address % _PAGE))


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
