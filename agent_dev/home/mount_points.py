"""The use of an agent home by sessions: it is created on first use and shared; mount points exist only during sessions.

A mount point is never removed while another session uses the home: the kernel would detach that session's mount. So each session
holds a shared lock, kept in the state directory where no agent can reach it.
"""

import fcntl
import os

from agent_dev.errors import Refused
from agent_dev.fs import safe_mkdir
from agent_dev.home.network_lease import NetworkLease, SharedPaths
from agent_dev.sandbox.plan import Bind, SandboxPlan

_ONLY_HOME = SharedPaths()


class HomeLease:
    """The use of an agent home by one session."""

    def __init__(self, state: str, path: str, net: str, shared: SharedPaths = _ONLY_HOME) -> None:
        """Use a home in a session with this network, which sees other paths of the host without an overlay.

        Raises Refused while a session with another network uses one of them.
        """
        self.path = path
        create_home(path)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK) and os.stat(path).st_uid == os.getuid():
            os.chmod(path, 0o700)  # an agent made it unreadable
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        found = os.fstat(self._fd)
        name = f"{found.st_dev:x}-{found.st_ino:x}"
        self._lock = _lock_file(state, name)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        try:
            self._net = NetworkLease(state, net, shared.replace(written=(path, *shared.written)))
        except BaseException:
            self._close()
            raise

    def prepare(self, points: tuple[str, ...], plan: SandboxPlan) -> tuple[str, ...]:
        """Create the mount points of a plan below the home without following links; return those that were missing."""
        # Recorded first: a launcher killed in between would leave them forever.
        os.write(self._lock, b"".join(os.fsencode(path) + b"\0" for path in self._missing(points)))
        return _create_points(self._fd, self.path, points, plan)

    def _missing(self, points: tuple[str, ...]) -> tuple[str, ...]:
        """Return the missing points and directories above them, outermost first."""
        found: dict[str, None] = {}
        for point in points:
            parts = point.split("/")
            for number in range(len(parts)):
                path = "/".join(parts[: number + 1])
                if path not in found and not self._has(path):
                    found[path] = None
        return tuple(found)

    def _has(self, path: str) -> bool:
        try:
            os.stat(path, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Stop using the home; the last session removes all empty mount points, including those of killed sessions."""
        if self._fd < 0:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # in use by another session; the last one removes the points of all
        else:
            self._remove_points()
        self._net.release()
        self._close()

    def hand_over_to_child(self) -> None:
        """Leave the release to a child process, which shares the lock: close the descriptor here."""
        self._net.release()  # for the child, too: nothing runs any more
        self._close()

    def _close(self) -> None:
        for fd in (self._fd, self._lock):
            os.close(fd)
        self._fd = -1

    def _remove_points(self) -> None:
        size = os.fstat(self._lock).st_size
        listed = os.pread(self._lock, size, 0).split(b"\0")
        safe_mkdir.remove_made(self._fd, tuple(os.fsdecode(path) for path in listed if path))
        os.ftruncate(self._lock, 0)


def prepare_layer(path: str, points: tuple[str, ...], plan: SandboxPlan) -> None:
    """Create the mount points of a plan in an upper layer of a home, so that the home itself needs none."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _create_points(fd, path, points, plan)
    finally:
        os.close(fd)


def _create_points(home: int, path: str, points: tuple[str, ...], plan: SandboxPlan) -> tuple[str, ...]:
    files = _file_targets(plan)
    created: list[str] = []
    for point in points:
        try:
            created += (safe_mkdir.make_file if point in files else safe_mkdir.make_directories)(home, point)
        except OSError as error:
            safe_mkdir.remove_made(home, tuple(created))
            raise Refused(
                message=f"cannot create the mount point {path}/{point}: {error.strerror}",
                hint="remove the link or file there",
            ) from None
    return tuple(created)


def create_home(path: str) -> None:
    """Create an agent home if it is missing. Raises Refused."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise Refused(message=f"the agent home {path} is not a directory") from None
    except FileNotFoundError:
        os.makedirs(path, 0o700)
    except OSError as error:
        raise Refused(message=f"cannot create the agent home {path}: {error.strerror}", hint="--home DIR") from None


def _lock_file(state: str, name: str) -> int:
    folder = f"{state}/homes"
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(f"{folder}/{name}", flags, 0o600)
    except FileNotFoundError:
        os.makedirs(folder, 0o700, exist_ok=True)
        return os.open(f"{folder}/{name}", flags, 0o600)


def _file_targets(plan: SandboxPlan) -> frozenset[str]:
    prefix = plan.home.rstrip("/") + "/"
    return frozenset(
        m.target[len(prefix) :]
        for m in plan.mounts
        if isinstance(m, Bind) and m.target.startswith(prefix) and not os.path.isdir(m.source)
    )
