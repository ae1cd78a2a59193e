"""Record what the user's terminal shows, as asciicast v2 (https://docs.asciinema.org/manual/asciicast/v2/).

Input is not recorded, so passwords that are typed without an echo are not in the file.
"""

import codecs
import json
import os
import time


class Recording:
    """A recording in progress. Each event is one line and one write, so a killed process leaves a valid file."""

    def __init__(self, fd: int, size: tuple[int, int]) -> None:
        """Write the header. `size`: rows and columns."""
        self._fd, self._size = fd, size
        self._start = time.monotonic()
        self._length = 0  # bytes of whole lines
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be split between two reads
        term = os.environ.get("TERM", "")
        rows, columns = size
        header = {"version": 2, "width": columns, "height": rows, "timestamp": int(time.time()), "env": {"TERM": term}}
        self._write_line(header)

    def add_output(self, data: bytes) -> None:
        """Record output."""
        self._add("o", self._decoder.decode(data))

    def add_size(self, size: tuple[int, int]) -> None:
        """Record the size of the terminal, rows and columns, if it changed."""
        if size != self._size:
            self._size = size
            self._add("r", f"{size[1]}x{size[0]}")

    def finish(self) -> None:
        """Record the rest of a character that was never completed."""
        self._add("o", self._decoder.decode(b"", final=True))

    def _add(self, kind: str, data: str) -> None:
        if data:
            self._write_line([round(time.monotonic() - self._start, 6), kind, data])

    def _write_line(self, value: object) -> None:
        """Write one complete line, or stop recording: a full disk must not stop the agent's output."""
        if self._fd < 0:
            return
        line = json.dumps(value).encode() + b"\n"
        try:
            if os.write(self._fd, line) == len(line):
                self._length += len(line)
                return
            os.ftruncate(self._fd, self._length)
        except OSError:
            pass  # nothing of the line was written
        self._fd = -1
