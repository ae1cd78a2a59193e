"""The control socket of a session, through which its agent begins, commits, rolls back and takes checkpoints.

`<session>/control` is the socket, bound into the sandbox. `<session>/transaction` is a symlink that names the checkpoint of the
outermost open transaction: if it was never ended, the next holder of the session rolls back to it.
"""

import os

from agent_dev.linux import unix_socket
from agent_dev.paths import is_below
from agent_dev.sandbox import landlock_probe
from agent_dev.sandbox.plan import ControlSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.session.store import Session

SOCKET_NAME = "control"
_SCRIPT = ("units.py", "option_parser.py", "tx_process.py", "tx_options.py", "tx.py")  # concatenated in this order
_MAX_PATH = 100  # characters of a path: a #! line may have 127 bytes
_BACKLOG = 16  # backlog of connections


def control_socket(folder: str, system: tuple[str, ...], untrusted: tuple[str, ...]) -> ControlSocket | None:
    """Return the control socket of a session; None if the sandbox shows no Python that could run the client."""
    interpreter = inside_python(system, untrusted)
    if not interpreter:
        return None
    return ControlSocket(
        f"{folder}/{SOCKET_NAME}", b"#!%s -ISB\n%s" % (os.fsencode(interpreter), landlock_probe.read_script(*_SCRIPT))
    )


def inside_python(system: tuple[str, ...], untrusted: tuple[str, ...]) -> str:
    """Return the Python that runs the client in the sandbox; empty if none is shown there."""
    shown = (path for path in landlock_probe.candidate_pythons() if len(path) < _MAX_PATH and _is_shown(path, system, untrusted))
    return next(shown, "")


def is_available() -> bool:
    """Return whether there is a Python below /usr, which every sandbox shows."""
    return any(path.startswith("/usr/") and len(path) < _MAX_PATH for path in landlock_probe.candidate_pythons())


def _is_shown(path: str, system: tuple[str, ...], untrusted: tuple[str, ...]) -> bool:
    return any(is_below(path, folder) for folder in system) and not any(is_below(path, folder) for folder in untrusted)


def create_socket(session: "Session") -> int:
    """Create the socket; return its listening descriptor."""
    import _socket

    return unix_socket.listen_at(_path(session), _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, _BACKLOG)


def remove_socket(session: "Session") -> None:
    """Remove the socket."""
    unix_socket.remove_socket(_path(session))


def _path(session: "Session") -> str:
    return f"{session.folder}/{SOCKET_NAME}"
