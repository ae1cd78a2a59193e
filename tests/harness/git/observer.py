"""Observe a directory from another process while something changes it."""

import os
import select
from collections.abc import Callable
from typing import Self


class Observer:
    """A process that calls `look` until it is stopped, then sends the results; a thread would wait for the interpreter lock."""

    def __init__(self, look: Callable[[], set[str]]) -> None:
        self._look = look
        self.seen: set[str] = set()

    def __enter__(self) -> Self:
        self._read_end, write_end = os.pipe()
        stop, self._stop = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._stop)
            self._run(write_end, stop)
        os.close(write_end)
        os.close(stop)
        os.read(self._read_end, 1)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._stop)
        with os.fdopen(self._read_end, "rb") as file:
            self.seen = {os.fsdecode(name) for name in file.read().split(b"\0")} - {""}
        os.waitpid(self._pid, 0)

    def _run(self, write_end: int, stop: int) -> None:
        seen: set[str] = set()
        try:
            os.write(write_end, b"\0")
            while not select.select([stop], [], [], 0)[0]:
                for _ in range(50):
                    seen |= self._look()
            os.write(write_end, b"\0".join(map(os.fsencode, seen)))
        finally:
            os._exit(0)
