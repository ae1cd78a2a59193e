"""The logs of a session (commands.jsonl, events.jsonl, network.jsonl), each a hash chain whose end and count are in session.json.

The `chain` of a line is the SHA-256 of the previous chain and of this line without it: a changed, removed or inserted line breaks
it, and the count reveals truncation.
"""

import hashlib
import json
import os
from itertools import islice
from typing import Any

from agent_dev.linux import streams
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LOG_SIZE = 64 << 20  # bytes: beyond that, plain `allow` rows are dropped; all rows beyond 1.5 times that
_FIRST = "0" * 64
_TAIL = 1 << 16  # bytes that usually contain the last two lines


class ChainEnd(Value):
    """The end of a log: lines written, the chain of the last one, and lines dropped because the log or the disk was full."""

    count: int = 0
    chain: str = _FIRST
    dropped: int = 0


class LogWriter:
    """A log open for appending; it continues the log of earlier runs of the session."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        _drop_half_line(self._fd)
        self.end = _end(self._fd) or verify(path).end
        self._size = os.fstat(self._fd).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def write(self, rows: "list[dict[str, Any]]") -> None:
        """Append rows. If the disk is full they are lost and count as dropped."""
        lines, head = [], self.end
        for row in rows:
            is_plain = row.get("decision") == "allow"
            if self._size > MAX_LOG_SIZE * (1 if is_plain else 1.5):
                head = head.replace(dropped=head.dropped + 1)
                continue
            line = {"n": head.count + 1, **row}
            if "argv" in row:
                from agent_dev.redact import mask_secrets  # only for commands: events are written here, too

                line["argv"] = mask_secrets(row["argv"])
            text = json.dumps(line)
            head = head.replace(count=head.count + 1, chain=_chain(head.chain, text))
            lines.append(f'{text[:-1]}, "chain": "{head.chain}"}}\n'.encode())
            self._size += len(lines[-1])
        try:
            _write_all(self._fd, b"".join(lines))
        except OSError:
            self.end = self.end.replace(dropped=self.end.dropped + len(rows))
        else:
            self.end = head


def _end(fd: int) -> ChainEnd | None:
    """Return the end of a log from its last two lines; reading all would make each append cost as much as the whole log.

    Return None if these lines are not valid. Changes further up are found when the log is read.
    """
    size = os.fstat(fd).st_size
    lines = os.pread(fd, _TAIL, max(0, size - _TAIL)).split(b"\n")[-3:-1]
    try:
        before, last = map(json.loads, lines)
        chain, number = last.pop("chain"), last["n"]
        if chain == _chain(before["chain"], json.dumps(last)) and number == before["n"] + 1:
            return ChainEnd(number, chain)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return None


def find_near_end(fd: int, number: int) -> bytes:
    """Return the line with a number, if it is near the end of a log; b"" if it is not, without reading the rest."""
    tail = os.pread(fd, _TAIL, max(0, os.fstat(fd).st_size - _TAIL))
    _, found, rest = tail.rpartition(b'\n{"n": %d, ' % number)
    return found[1:] + rest.partition(b"\n")[0] if found else b""


def _drop_half_line(fd: int) -> None:
    """Remove the incomplete last line that a killed process left."""
    size = os.fstat(fd).st_size
    tail = os.pread(fd, 1 << 16, max(0, size - (1 << 16)))
    os.ftruncate(fd, size - len(tail) + tail.rfind(b"\n") + 1)


def _write_all(fd: int, data: bytes) -> None:
    size = os.fstat(fd).st_size
    try:
        streams.write_all(fd, data)
    except OSError:
        os.ftruncate(fd, size)  # no incomplete line
        raise


def _chain(before: str, line: str) -> str:
    return hashlib.sha256(before.encode() + line.encode()).hexdigest()


class LogRows:
    """The valid rows of a log, read again by each loop over them: in memory, those of a full log take 400 MiB."""

    def __init__(self, path: str, count: int, decision: str = "") -> None:
        """`count`: of the lines; `decision`: only rows with this one, "" for all."""
        self._path, self._count, self._decision = path, count, decision

    def with_decision(self, decision: str) -> "LogRows":
        """Return the rows with this decision."""
        return LogRows(self._path, self._count, decision)

    def __iter__(self) -> "Iterator[dict[str, Any]]":
        return (row for row in map(_row, self._lines()) if self._decision in ("", row.get("decision")))

    def by_time(self) -> "Iterator[dict[str, Any]]":
        """Yield the rows in the order of their `time`, in ns; those without one come first."""
        places, offset = list[tuple[int, int]](), 0
        for line in self._lines():
            places.append((_time(_row(line)), offset))
            offset += len(line)
        if not places:
            return
        places.sort()
        with open(self._path, "rb") as file:
            for _, at in places:
                file.seek(at)
                row = _row(file.readline())
                if self._decision in ("", row.get("decision")):
                    yield row

    def _lines(self) -> "Iterator[bytes]":
        if self._count:
            with open(self._path, "rb") as file:
                yield from islice(file, self._count)


class VerifiedLog(Value):
    """The valid part of a log: its rows, its end, and the problem after that."""

    rows: LogRows
    end: ChainEnd
    problem: str = ""


def verify(path: str) -> VerifiedLog:
    """Read a log and verify its chain; a missing log is empty. Truncation is detected by session/events."""
    count, chain, problem = 0, _FIRST, ""
    try:
        with open(path, "rb") as file:
            for line in file:
                row = json.loads(line)
                recorded = row.pop("chain")
                if recorded != _chain(chain, json.dumps(row)):
                    raise ValueError
                chain = recorded
                count += 1
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        problem = f"it was changed after line {count}"
    return VerifiedLog(LogRows(path, count), ChainEnd(count, chain), problem)


def _row(line: bytes) -> "dict[str, Any]":
    """Return the row of a verified line."""
    row: dict[str, Any] = json.loads(line)
    del row["chain"]
    return row


def _time(row: "dict[str, Any]") -> int:
    time_ns = row.get("time")
    return time_ns if isinstance(time_ns, int) else 0
