"""Create the file of a recording for the terminal's relay, and remove it if the start fails."""

import os

from agent_dev.errors import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.sandbox.terminal.pty import Terminal


def create(path: str) -> int:
    """Create the file of a recording, which only its owner can read, and return its descriptor. Raises CannotStart.

    An existing file is never overwritten, and a symbolic link never followed.
    """
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise CannotStart(message=f"--record {path}: the file exists", hint="name a new file") from None
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise CannotStart(message=f"--record {path}: {reason}", hint="name a new file in a writable directory") from None


def begin(terminal: "Terminal", path: str) -> None:
    """Create the file of a recording and give it to the terminal's relay. Raises CannotStart."""
    if not terminal.is_relayed():
        raise CannotStart(message="--record: there is no terminal to record", hint="run it in a terminal, without redirections")
    terminal.record_to(create(path))


def remove_unused(terminal: "Terminal", path: str) -> None:
    """Remove the file of a recording that did not begin, after a failed start."""
    fd = terminal.take_recording()
    if fd < 0:
        return
    try:
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            os.unlink(path)
    except OSError:
        pass  # removed already
    os.close(fd)
