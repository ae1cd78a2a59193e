"""Ids of sessions and snapshots: their time, made unique. They sort by creation, even after the clock was set back."""

import os
import time

_LENGTH = len("261231-235959-999f")
_LAST = 10**15 - 1  # no stamp follows it


def new_id(others: list[str]) -> str:
    """Return a new id that sorts after the ids among `others`.

    A clock that was set back is ignored until it has caught up: each id is one step after the newest one.
    """
    now = time.time_ns()
    stamp = int(time.strftime("%y%m%d%H%M%S", time.gmtime(now // 10**9))) * 1000 + now // 10**6 % 1000
    newest = max((one for one in map(_stamp, others) if one < _LAST), default=0)
    digits = f"{max(stamp, newest + 1):015d}"
    return f"{digits[:6]}-{digits[6:12]}-{digits[12:]}{os.urandom(1).hex()[0]}"


def is_id(name: str) -> bool:
    """Return whether a name has the form of an id."""
    digits = name[:-1].replace("-", "")
    return len(name) == _LENGTH and name[6:14:7] == "--" and len(digits) == 15 and digits.isascii() and digits.isdigit()


def _stamp(name: str) -> int:
    """Return the time in an id as a number, 0 for another name."""
    return int(name[:-1].replace("-", "")) if is_id(name) else 0
