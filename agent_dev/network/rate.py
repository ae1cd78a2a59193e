"""Limits of events and of processor time: a burst, then so much per second."""

import time


class RateLimit:
    """A token bucket."""

    def __init__(self, burst: int, per_second: float) -> None:
        self._burst, self._per_second = burst, per_second
        self._tokens, self._at = float(burst), time.monotonic()

    def take(self) -> bool:
        """Return whether one more is within the limit, and count it."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class TimeBudget:
    """A limit of the processor time for work that can be omitted: some seconds, then a share of the time."""

    def __init__(self, burst: float, share: float) -> None:
        self._burst, self._share = burst, share
        self._left, self._at = burst, time.monotonic()

    def is_left(self) -> bool:
        """Return whether there is time left."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._share)
        self._at = now
        return self._left > 0

    def spend(self, seconds: float) -> None:
        """Take time from it; it can become negative."""
        self._left -= seconds
