"""The launcher's end of the process beside a sandbox that hears of each command: what it is told, and how it is ended.

A process of its own, forked before the sandbox is built: it sees every execve, and nothing starts while it does not answer.
When it is gone, nothing starts any more. It holds nothing of the launcher's but the session's folder by its path.
"""

import gc
import os

from agent_dev.errors import BadConfiguration, CannotStart
from agent_dev.linux import signals
from agent_dev.linux import syscalls as kernel
from agent_dev.value import Value

CONTROL, TOLD = 3, 4  # the only descriptors that it keeps
READY = b"+"
_ENDED = "what watches the commands ended, and without it nothing starts"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Watch(Value):
    """The set of rules that decides, where the log lies, the user's home and environment, how many seconds a question waits.

    `roll_back` brings the running session back to a checkpoint of that number, and returns what could not be done.
    """

    policy: str
    folder: str
    home: str
    environ: dict[str, str]
    patience: int
    roll_back: "Callable[[int], str]"


class Tally(Value):
    """How far the log goes, as session.json has it (`chain` empty: nothing was written), and how many were denied."""

    count: int = 0
    chain: str = ""
    dropped: int = 0
    denied: int = 0
    digest: str = ""  # of the rules


class Watcher:
    """The launcher's end of the process. `follow` it to a sandbox, then `finish` or `dismiss` it."""

    def __init__(self, watch: Watch) -> None:
        control, self._control = os.pipe()
        self._told, told = os.pipe()
        self.is_watching = False
        launcher = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                gc.disable()  # nothing here goes round in circles, and each pause would hold a command
                _part(launcher, control, told)
                from agent_dev.policy.service import Service  # while the sandbox is built

                Service(watch).run()
            finally:
                os._exit(1)
        os.close(control)
        os.close(told)

    def follow(self, pid: int, listener: int) -> None:
        """Tell it whose descriptor to borrow; a negative one: there is nothing to watch. Raises BadConfiguration, CannotStart."""
        said = os.read(self._told, 1 << 16)
        if said != READY:
            raise BadConfiguration(message=said.decode()) if said else CannotStart(message=_ENDED)
        self.is_watching = listener >= 0
        os.write(self._control, b"%d %d\n" % (pid, listener))
        if self.is_watching and os.read(self._told, 1) != READY:
            raise CannotStart(message=_ENDED)

    def check(self) -> None:
        """Raise CannotStart when it has ended by itself."""
        if self.pid and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise CannotStart(message=_ENDED)

    def finish(self, *, is_kept: bool) -> Tally:
        """Have the log written to its end, unless the session `is_kept` by nobody, and return what it came to."""
        if not self.pid:
            return Tally()
        count, chain, dropped, denied, digest = self._asked(is_kept=is_kept).decode().split() or ("0", "-", "0", "0", "-")
        return Tally(int(count), chain.strip("-"), int(dropped), int(denied), digest.strip("-"))

    def has_denied(self) -> bool:
        """Whether what was to start was denied; nothing of the log is kept. Raises CannotStart when it has ended by itself."""
        if not self.pid or not self.is_watching:
            return False
        said = self._asked(is_kept=False)
        if not said:
            raise CannotStart(message=_ENDED)
        return said.split()[3] != b"0"

    def _asked(self, *, is_kept: bool) -> bytes:
        """Have it end, and return what it says of the log; nothing when it had ended before."""
        try:
            os.write(self._control, b"write\n" if is_kept else b"leave\n")
        except BrokenPipeError:
            pass  # it has ended, and so nothing could start since
        said = b""
        while not said.endswith(b"\n") and (piece := os.read(self._told, 4096)):
            said += piece
        self.pid = 0  # it ends by itself, and holds nothing: not waited for
        return said

    def dismiss(self) -> None:
        """End it: there is nothing to write."""
        if self.pid:
            os.kill(self.pid, signals.KILL)
            self._leave()

    def _leave(self) -> None:
        os.waitpid(self.pid, 0)
        self.pid = 0
        os.close(self._control)
        os.close(self._told)


def _part(launcher: int, control: int, told: int) -> None:
    """Leave the terminal and every descriptor of the launcher's: its locks, its pipes, its standard streams."""
    os.setsid()
    kernel.die_with_parent()
    if os.getppid() != launcher:
        os._exit(1)
    for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM):
        signals.default(number)
    signals.ignore(signals.PIPE)
    kept = (os.dup(control), os.dup(told), os.open(os.devnull, os.O_RDWR))
    high = max(kept) + 1
    copies = [os.dup2(fd, high + number, inheritable=False) for number, fd in enumerate(kept)]
    os.dup2(copies[0], CONTROL, inheritable=False)
    os.dup2(copies[1], TOLD, inheritable=False)
    for standard in range(3):
        os.dup2(copies[2], standard)
    os.closerange(5, 4096)
