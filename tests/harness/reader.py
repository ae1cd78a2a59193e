"""What another process sees while something is done."""

import os
import select
from collections.abc import Callable
from typing import Self


class Watcher:
    """A process that looks over and over until it is over, and tells what it saw: a thread would wait its turn."""

    def __init__(self, look: Callable[[], set[str]]) -> None:
        self._look = look
        self.seen: set[str] = set()

    def __enter__(self) -> Self:
        self._told, told = os.pipe()
        over, self._over = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._over)
            self._run(told, over)
        os.close(told)
        os.close(over)
        os.read(self._told, 1)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._over)
        with os.fdopen(self._told, "rb") as file:
            self.seen = {os.fsdecode(name) for name in file.read().split(b"\0")} - {""}
        os.waitpid(self._pid, 0)

    def _run(self, told: int, over: int) -> None:
        seen: set[str] = set()
        try:
            os.write(told, b"\0")
            while not select.select([over], [], [], 0)[0]:
                for _ in range(50):
                    seen |= self._look()
            os.write(told, b"\0".join(map(os.fsencode, seen)))
        finally:
            os._exit(0)
