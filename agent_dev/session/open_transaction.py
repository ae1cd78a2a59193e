"""The checkpoint at the start of the outermost open transaction of a session."""

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.session.store import Session

LINK_NAME = "transaction"


def record_checkpoint(session: "Session", number: int) -> None:
    """Record the checkpoint to roll back to if the transaction is not ended; 0: none is open."""
    link = f"{session.folder}/{LINK_NAME}"
    if number == recorded_checkpoint(session):
        return
    if number:
        new = f"{link}.new"
        _unlink(new)
        os.symlink(str(number), new)
        os.rename(new, link)
    else:
        _unlink(link)


def recorded_checkpoint(session: "Session") -> int:
    """Return the checkpoint of the outermost open transaction; 0 for none."""
    try:
        return int(os.readlink(f"{session.folder}/{LINK_NAME}"))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return 0


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
