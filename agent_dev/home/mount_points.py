"""The agent home: made on first use, shared by sessions, its mount points made beforehand and removed after.

A mount point is never removed while another session uses the home: the kernel would take that session's mount away with
it. So each session holds a shared lock, kept in the state directory where no agent can reach it.
"""

import fcntl
import os

from agent_dev.errors import Refused
from agent_dev.fs import safe_mkdir as folders
from agent_dev.sandbox.plan import Bind, SandboxPlan


class Home:
    """One session's use of an agent home."""

    def __init__(self, state: str, path: str) -> None:
        self.path = path
        _make(path)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK) and os.stat(path).st_uid == os.getuid():
            os.chmod(path, 0o700)  # an agent shut it
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        found = os.fstat(self._fd)
        self._lock = _lock_file(state, f"{found.st_dev:x}-{found.st_ino:x}")
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def prepare(self, points: tuple[str, ...], plan: SandboxPlan) -> tuple[str, ...]:
        """Make the mount points of a plan below the home, no link followed; return those that were missing."""
        files = _file_targets(plan)
        made: list[str] = []
        # Written down before any is made: a launcher killed in between would leave them for good.
        os.write(self._lock, b"".join(os.fsencode(path) + b"\0" for path in self._missing(points)))
        for point in points:
            try:
                made += (folders.make_file if point in files else folders.make)(self._fd, point)
            except OSError as error:
                folders.unmake(self._fd, tuple(made))
                raise Refused(
                    message=f"{self.path}/{point} cannot be a mount point: a link or a file is in the way ({error.strerror})",
                    hint=f"look at it and move it away: {self.path}",
                ) from None
        return tuple(made)

    def _missing(self, points: tuple[str, ...]) -> tuple[str, ...]:
        """Return the points, and the directories above them, that are not there yet, outermost first."""
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

    def leave(self) -> None:
        """Stop using the home; the last to leave removes all mount points that are empty, a killed session's too."""
        if self._fd < 0:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # another session's mounts may stand there: whoever leaves last finds them in the list
        else:
            self._remove_points()
        os.close(self._fd)
        os.close(self._lock)
        self._fd = -1

    def hand_over(self) -> None:
        """Let a child of ours be the one that leaves: the lock is shared with it, so ours must go too."""
        os.close(self._fd)
        os.close(self._lock)
        self._fd = -1

    def _remove_points(self) -> None:
        size = os.fstat(self._lock).st_size
        listed = os.pread(self._lock, size, 0).split(b"\0")
        folders.unmake(self._fd, tuple(os.fsdecode(path) for path in listed if path))
        os.ftruncate(self._lock, 0)


def _make(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise Refused(message=f"the agent home {path} is not a directory") from None
    except FileNotFoundError:
        os.makedirs(path, 0o700)
    except OSError as error:
        raise Refused(message=f"the agent home {path} cannot be made: {error.strerror}", hint="--home DIR") from None


def _lock_file(state: str, name: str) -> int:
    folder = f"{state}/homes"
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(f"{folder}/{name}", flags, 0o600)
    except FileNotFoundError:
        os.makedirs(folder, 0o700, exist_ok=True)
        return os.open(f"{folder}/{name}", flags, 0o600)


def _file_targets(plan: SandboxPlan) -> frozenset[str]:
    inside = plan.home.rstrip("/") + "/"
    return frozenset(
        m.target[len(inside) :]
        for m in plan.mounts
        if isinstance(m, Bind) and m.target.startswith(inside) and not os.path.isdir(m.source)
    )
