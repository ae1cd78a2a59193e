"""Start a helper process of the launcher, with a control socket."""

import _socket
import os

from agent_dev.linux import process, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

READY, FAILED = b"r", b"!"  # first messages of a helper; FAILED is followed by the reason


def start_helper(serve: "Callable[[_socket.socket], None]", kept_fds: "Iterable[int]") -> "tuple[int, _socket.socket]":
    """Call `serve` with a control socket in a new process; return its pid and our end of the socket.

    The process is detached from the launcher, dies with it, and has no other descriptors but `kept_fds`. If `serve` cannot import
    a library, the reason is sent after FAILED.
    """
    control, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            process.leave_launcher(launcher)
            signals.ignore(signals.PIPE)
            process.close_all_but({theirs.fileno(), *kept_fds})
            serve(theirs)
        except ImportError as error:
            theirs.send(FAILED + str(error).encode("utf-8", "replace"))
        finally:
            os._exit(1)
    theirs.close()
    return pid, control
