"""commands.jsonl: what an agent started, one line each, in a chain of hashes whose head and count stand in session.json.

Each line holds `chain`, the SHA-256 of the line before's chain and of this line without it: a line that is changed, taken out
or put in breaks it, and one that is cut off at the end is missing from the count.
"""

import hashlib
import json
import os
from typing import Any

from agent_dev.value import Value

LARGEST = 64 << 20  # bytes: then only what is not simply allowed is written, up to half as much again
_FIRST = "0" * 64
_TAIL = 1 << 16  # bytes in which a log's last two lines mostly lie


class Head(Value):
    """How far a log goes: lines written, the last one's chain, and how many were left out since it was full."""

    count: int = 0
    chain: str = _FIRST
    dropped: int = 0


class Log:
    """A log that is written; it goes on where an earlier run of the session ended."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        _drop_half_line(self._fd)
        self.head = _end(self._fd) or verify(path).head
        self._size = os.fstat(self._fd).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def write(self, rows: "list[dict[str, Any]]") -> None:
        """Append rows. A full disk loses them, and they count as left out."""
        lines, head = [], self.head
        for row in rows:
            is_plain = row.get("decision") == "allow"
            if self._size > LARGEST * (1 if is_plain else 1.5):
                head = head.but(dropped=head.dropped + 1)
                continue
            line = {"n": head.count + 1, **row}
            if "argv" in row:
                from agent_dev.redact import masked  # only for commands: events come through here too

                line["argv"] = masked(row["argv"])
            text = json.dumps(line)
            head = head.but(count=head.count + 1, chain=_chain(head.chain, text))
            lines.append(f'{text[:-1]}, "chain": "{head.chain}"}}\n'.encode())
            self._size += len(lines[-1])
        try:
            _write_all(self._fd, b"".join(lines))
        except OSError:
            self.head = self.head.but(dropped=self.head.dropped + len(rows))
        else:
            self.head = head


def _end(fd: int) -> Head | None:
    """Return how far a log goes, by its last two lines alone: each line that is added would cost what all before it hold.

    None where they do not tell. A line that was changed further up is found by who reads the log, wherever it goes on.
    """
    size = os.fstat(fd).st_size
    lines = os.pread(fd, _TAIL, max(0, size - _TAIL)).split(b"\n")[-3:-1]
    try:
        before, last = map(json.loads, lines)
        said, number = last.pop("chain"), last["n"]
        if said == _chain(before["chain"], json.dumps(last)) and number == before["n"] + 1:
            return Head(number, said)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return None


def _drop_half_line(fd: int) -> None:
    """Take away what a launcher that was killed wrote in part."""
    size = os.fstat(fd).st_size
    tail = os.pread(fd, 1 << 16, max(0, size - (1 << 16)))
    os.ftruncate(fd, size - len(tail) + tail.rfind(b"\n") + 1)


def _write_all(fd: int, data: bytes) -> None:
    size = os.fstat(fd).st_size
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        os.ftruncate(fd, size)  # no half line
        raise


def _chain(before: str, line: str) -> str:
    return hashlib.sha256(before.encode() + line.encode()).hexdigest()


class Verified(Value):
    """What a log holds as far as its chain is whole: the rows, the head there, and what is wrong after that."""

    rows: "tuple[dict[str, Any], ...]"
    head: Head
    problem: str = ""


def verify(path: str) -> Verified:
    """Read a log and check its chain; none is an empty one. Whether its end is there, host/events tells."""
    rows: list[dict[str, Any]] = []
    chain, problem = _FIRST, ""
    try:
        with open(path, "rb") as file:
            for line in file:
                row = json.loads(line)
                said = row.pop("chain")
                if said != _chain(chain, json.dumps(row)):
                    raise ValueError
                chain = said
                rows.append(row)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        problem = f"it was changed after line {len(rows)}"
    return Verified(tuple(rows), Head(len(rows), chain), problem)
