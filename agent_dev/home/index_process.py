"""Start the process that indexes an agent home. Only that process imports what it needs, so that the launcher ends at once."""

import fcntl
import os

from agent_dev.fs import background_removal
from agent_dev.home.index_paths import index_prefix


def start_indexing(state: str, home: str, launched: int) -> None:
    """Write the index in a background process; `read_previous` waits for its lock.

    `launched`: the start of the session, in ns since 1970.
    """
    prefix = index_prefix(state, home)
    lock = os.open(f"{prefix}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return  # another session's index is being written and will include these changes

    def work(_: int) -> None:
        os.closerange(3, lock)
        os.closerange(lock + 1, 4096)  # including locks
        os.nice(10)
        from agent_dev.home import index  # here: the imports take longer than a sandbox that runs `true`

        index.write_index(prefix, home, launched)

    background_removal.run_in_background(work)
    os.close(lock)
