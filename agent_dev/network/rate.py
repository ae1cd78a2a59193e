"""A rate limit: a burst, then a number of events per second."""

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
