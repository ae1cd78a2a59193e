"""Reading on a worker thread, one thing at a time, and only what is still wanted."""

from collections.abc import Callable
from threading import Lock

from agent_dev.core.changes import Key
from tui.document import Document


class Reader:
    """Whoever asks last is served next; what was asked for in between is dropped."""

    def __init__(self, read: Callable[[Key], Document], deliver: Callable[[Document], object]) -> None:
        self._read, self._deliver = read, deliver
        self._lock = Lock()
        self._wanted: Key | None = None
        self._is_busy = False

    def ask(self, key: Key) -> bool:
        """Want a key; return whether `work` must be started for it."""
        with self._lock:
            self._wanted = key
            was_busy, self._is_busy = self._is_busy, True
            return not was_busy

    def work(self) -> None:
        """Read until nothing is wanted; runs on the worker thread."""
        while (key := self._next()) is not None:
            self._deliver(self._read(key))

    def _next(self) -> Key | None:
        with self._lock:
            key, self._wanted = self._wanted, None
            self._is_busy = key is not None
            return key
