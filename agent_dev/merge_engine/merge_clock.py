"""A monotonic clock for merges, so that their order is known even if the system clock is set back."""

import os
import time

from agent_dev.session.store import Store

_STEP = 10**6  # ns; merge ids have ms resolution
_FUTURE = 10 * 365 * 86_400 * 10**9  # ignore a damaged file


def next_time(store: Store) -> int:
    """Return a time in ns since 1970 that is later than all earlier ones; called under the lock of all merges.

    On a full disk the system time is returned and not stored: the merge itself will fail with that error.
    """
    found = time.time_ns()
    try:
        fd = os.open(f"{store.path}/tick", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return found
    try:
        last = int.from_bytes(os.pread(fd, 8, 0), "big")
        if last < found + _FUTURE:
            found = max(found, last + _STEP)
        os.pwrite(fd, found.to_bytes(8, "big"), 0)
    except OSError:
        return found
    finally:
        os.close(fd)
    return found
