"""The door of a session: a socket at which its agent begins, commits and rolls back, and takes checkpoints. Nothing else.

`<session>/door` is the socket, bound into the sandbox; `<session>/transaction` names the checkpoint of the outermost transaction
that is open, as a link does: whoever holds the session when that was never ended goes back to it.
"""

import errno
import os

from agent_dev.sandbox import landlock_probe as wall
from agent_dev.sandbox.plan import Door, is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.session.store import Session

NAME, MARK = "door", "transaction"
_SCRIPT = ("../tx_process.py", "../tx_options.py", "../tx.py")  # one, read from the first line to the last
_LONGEST = 100  # characters of a path: a first line holds 127 bytes
_WAITING = 16  # connections that nobody has taken up


def door(folder: str, system: tuple[str, ...], untrusted: tuple[str, ...]) -> Door | None:
    """Return the door of a session; None where no Python is shown inside, in which what goes to it is written."""
    found = python(system, untrusted)
    if not found:
        return None
    return Door(f"{folder}/{NAME}", b"#!%s -ISB\n%s" % (os.fsencode(found), b"".join(map(_source, _SCRIPT))))


def python(system: tuple[str, ...], untrusted: tuple[str, ...]) -> str:
    """Return the Python that runs it inside; nothing where none is shown."""
    shown = (path for path in wall.pythons() if len(path) < _LONGEST and _is_shown(path, system, untrusted))
    return next(shown, "")


def _source(name: str) -> bytes:
    with open(os.path.join(os.path.dirname(__file__), name), "rb", 0) as file:
        return file.read()


def is_possible() -> bool:
    """Whether a Python below /usr is there, as every sandbox shows it."""
    return any(path.startswith("/usr/") and len(path) < _LONGEST for path in wall.pythons())


def _is_shown(path: str, system: tuple[str, ...], untrusted: tuple[str, ...]) -> bool:
    return any(is_below(path, place) for place in system) and not any(is_below(path, place) for place in untrusted)


def listen(session: "Session") -> int:
    """Make the socket; return the descriptor at which it is heard."""
    import _socket  # the C half: the other brings selectors and enum with it

    folder = os.open(session.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove(session)
        made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK)
        made.bind(f"/proc/self/fd/{folder}/{NAME}")  # its own path may be longer than a socket's name can be
        made.listen(_WAITING)
        return made.detach()
    finally:
        os.close(folder)


def remove(session: "Session") -> None:
    """Take the socket away."""
    try:
        os.unlink(f"{session.folder}/{NAME}")
    except FileNotFoundError:
        return


# The mark


def mark(session: "Session", number: int) -> None:
    """Note the checkpoint to go back to if nobody ends what is open; 0: nothing is."""
    place = f"{session.folder}/{MARK}"
    if number == marked(session):
        return
    if number:
        new = f"{place}.new"
        _unlink(new)
        os.symlink(str(number), new)
        os.rename(new, place)
    else:
        _unlink(place)


def marked(session: "Session") -> int:
    """Return the checkpoint of the outermost transaction that was not ended; 0 for none."""
    try:
        return int(os.readlink(f"{session.folder}/{MARK}"))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return 0


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
