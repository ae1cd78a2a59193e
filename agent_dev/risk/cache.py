"""A cache of the risks and line counts of a session's files, stored in the session: each file is read only once.

A row is valid for the identities of both sides (inode, size, times), which every write changes, and for the rules and the code
that produced it. A damaged cache counts as empty.
"""

import json
import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, BinaryIO

from agent_dev.fs import fast_json
from agent_dev.fs.entry import Entry, Key
from agent_dev.overlay import raw_json

_NAME = "judged.json"
_FORMAT = 1
_TICK = 50_000_000  # ns: a file written more recently than this may be written again with the same times
_NOTHING_FOUND = b",[],null]"  # the end of most rows, which need no JSON parser

Row = list[Any]  # names of rules or None; then [is text, insertions, deletions] or None


def fingerprint(*sides: Entry | None, about: str = "") -> str:
    """Return a fingerprint of a change: both sides, and what else its risks depend on."""
    return sha256("|".join((*map(_side_text, sides), about)).encode()).hexdigest()[:24]


def _side_text(side: Entry | None) -> str:
    """Return what identifies a version of a file. Formatted by hand: the `repr` of a type takes longer than the rest."""
    if side is None:
        return ""
    return f"{side.type} {side.inode} {side.size} {side.mtime} {side.ctime} {side.mode} {side.target!r}"


class _StoredRows:
    """The rows of a file by name, found in its text: a dictionary of 100,000 needs 25 MB more memory."""

    def __init__(self, text: str, at: int) -> None:
        """Find the members of the object at a position. Raises ValueError."""
        self._text = text
        # Of each the hash and the position: half of an integer each.
        self._places = array("Q", sorted(_hash(name) << 32 | start for name, start in raw_json.find_members(text, at)))

    def get(self, name: str) -> bytes | None:
        """Return the row of a name as JSON; None if there is none."""
        first = _hash(name) << 32
        for at in range(bisect_left(self._places, first), len(self._places)):
            place = self._places[at]
            if place >> 32 != first >> 32:
                break
            found, row = raw_json.member_at(self._text, place & 0xFFFFFFFF)
            if found == name:
                return row
        return None

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yield the names and the rows, as JSON."""
        return (raw_json.member_at(self._text, place) for place in sorted(place & 0xFFFFFFFF for place in self._places))


def _hash(name: str) -> int:
    return hash(name) & 0xFFFFFFFF


class RiskCache:
    """The cached rows of one session. `version`: of the rules and the code."""

    def __init__(self, folder: str, version: str) -> None:
        self._path, self._version = f"{folder}/{_NAME}", version
        self._stored = _read(self._path, version)
        self._new: dict[str, bytes] = {}  # as JSON: values would need five times the memory
        self._is_saved = True

    def get(self, key: Key, mark: Callable[[], str]) -> Row | None:
        """Return the cached row of a change whose fingerprint `mark` computes; it is not called without a row."""
        if self._stored is None and not self._new:
            return None
        name = _name(key)
        text = self._new.get(name) or (self._stored.get(name) if self._stored is not None else None)
        start = b'["%b"' % mark().encode() if text is not None else b""
        if text is None or not text.startswith(start):
            return None
        if text == start + _NOTHING_FOUND:
            return [[], None]
        row: Any = json.loads(text)
        return row[1:] if _is_row(row) else None

    def put(self, key: Key, mark: str, row: Row, changed: int, now: int) -> None:
        """Store a row computed at `now` for a change whose newer side has the time `changed` (both ns since 1970)."""
        if now - changed > _TICK:
            is_empty = row == [[], None]
            self._new[_name(key)] = b'["%b"%b' % (mark.encode(), _NOTHING_FOUND) if is_empty else fast_json.dumps([mark, *row])
            self._is_saved = False

    def save(self) -> None:
        """Save the rows. A full disk costs only time later."""
        if self._is_saved:
            return
        temp = f"{self._path}.{os.getpid()}"
        try:
            with open(temp, "wb") as file:
                self._write(file)
            os.rename(temp, self._path)
        except OSError:
            return
        self._is_saved = True

    def _rows(self) -> Iterator[tuple[str, bytes]]:
        """Yield all rows."""
        yield from ((name, row) for name, row in self._stored or () if name not in self._new)
        yield from self._new.items()

    def _write(self, file: BinaryIO) -> None:
        """Write the rows in parts, since the text of 100,000 would need as much memory as they do."""
        digest = sha256()

        def put(data: bytes) -> None:
            digest.update(data)
            file.write(data)

        file.write(digest.hexdigest().encode() + b"\n")  # replaced at the end
        put(_head(self._version) + b"{")
        for part in raw_json.encode_members(self._rows()):
            put(part)
        put(b"}")
        file.seek(0)
        file.write(digest.hexdigest().encode())


def _name(key: Key) -> str:
    return f"{key.root}:{os.fsdecode(key.path)}"


def _head(version: str) -> bytes:
    return b'{"format":%d,"version":%b,"rows":' % (_FORMAT, fast_json.dumps(version))


def _read(path: str, version: str) -> _StoredRows | None:
    """Return the rows of a file; None if it is missing, damaged, of another version, or empty."""
    try:
        with open(path, "rb") as file:
            digest, body = file.readline(), file.read()
        head = _head(version)
        if digest != _sum(body) + b"\n" or not body.startswith(head + b'{"'):
            return None
        text = body.decode("ascii")
        del body  # it is large
        return _StoredRows(text, len(head))
    except (OSError, ValueError):
        return None


def _sum(body: bytes) -> bytes:
    return sha256(body).hexdigest().encode()


def _is_row(row: object) -> bool:
    match row:
        case [str(), None | list() as risks, None | [bool(), int(), int()]]:
            return risks is None or all(isinstance(name, str) for name in risks)
        case _:
            return False
