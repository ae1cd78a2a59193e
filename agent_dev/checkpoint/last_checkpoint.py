"""The checkpoint at the end of a run, taken in another process while the launcher opens the review."""

import os
import select

from agent_dev.fs.entry import FileType
from agent_dev.linux import streams, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agent_dev.overlay.changes import Change

_NICE = 5  # the user waits for the screen, not for the checkpoint
_KILLED = "no checkpoint was taken at the end: its process was killed"
_OWNER_READ = 0o400


def may_run_during_review(changes: "Iterable[Change]") -> bool:
    """Return whether the checkpoint and the review of these changes can read the session at the same time.

    Both make an unreadable file readable for a moment, and would mistake each other's mode for the agent's.
    """
    entries = (change.after for change in changes if change.after is not None)
    return all(one.mode & _OWNER_READ for one in entries if one.type in (FileType.FILE, FileType.DIRECTORY))


class LastCheckpoint:
    """A process that takes a checkpoint. Nothing may change the session before it ends; it dies with the launcher."""

    def __init__(self, take: "Callable[[], str]", *, is_awaited: bool = False) -> None:
        """`take`: take the checkpoint; return why it failed, "" if it did not. `is_awaited`: the user waits for it."""
        launcher = os.getpid()
        self._reader, writer = os.pipe()
        self.is_finished = False
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _leave_terminal(launcher, 0 if is_awaited else _NICE)
                streams.write_all(writer, take().encode())
            except BaseException:  # noqa: BLE001  (the launcher reports any failure; a traceback would damage the screen)
                os._exit(1)
            os._exit(0)
        os.close(writer)
        self._end = os.pidfd_open(self._pid)

    def wait(self) -> None:
        """Wait until the process has ended; works in a child of the launcher, too."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        poll.poll()

    def finish(self) -> str:
        """Wait for the process, once; return why there is no checkpoint, "" if there is one."""
        self.is_finished = True
        error = streams.read_to_end(self._reader).decode()
        _, status = os.waitpid(self._pid, 0)
        os.close(self._end)
        return _KILLED if status else error


def _leave_terminal(launcher: int, priority: int) -> None:
    """Leave the terminal's signals and streams, die with the launcher, and lower the priority."""
    syscalls.die_with_parent()
    if os.getppid() != launcher:
        os._exit(1)
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.nice(priority)
