"""The automatic cleaning: once a day, in the background. On other days it costs one lookup."""

import os
import time
from contextlib import suppress

from agent_dev.fs import background_removal
from agent_dev.merge import pack
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext

_DAY = 86_400 * 10**9  # ns
_PRIORITY = 10  # added to the nice value


def clean_after_merge(where: CommandContext) -> None:
    """Pack a few merged sessions, and start the automatic cleaning if it is due."""
    pack.pack_few(where)
    clean_if_due(where)


def clean_if_due(where: CommandContext) -> None:
    """Start a process that removes all that exceeds the settings `keep_*`, unless one was started in the last day."""
    if not _is_due(where.store):
        return

    def work(_end: int) -> None:
        os.closerange(3, 4096)  # includes our locks, and `_end`
        os.nice(_PRIORITY)
        from agent_dev.retention import clean  # needed once a day only

        clean.clean_automatically(where)

    background_removal.run_in_background(work)


def _is_due(state: store.Store) -> bool:
    """Return whether a day has passed since the last time; record this time."""
    mark = f"{state.path}/thinned"
    try:
        is_due = time.time_ns() - os.stat(mark).st_mtime_ns > _DAY
    except FileNotFoundError:
        is_due = os.path.isdir(state.path)
    if is_due:
        with suppress(OSError):  # such as a full disk, which needs the cleaning most
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.utime(mark)
    return is_due
