"""The process beside a sandbox that takes checkpoints: at the start, then every so many minutes when something changed.

A process of its own at the lowest priority: the agent waits for none of it. It ends with the launcher, whenever that is.
"""

import gc
import os
import select
import time

from agent_dev.linux import signals
from agent_dev.linux import syscalls as kernel
from agent_dev.session import store
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NICE = 19
_MANY = 100_000  # objects between two looks for cycles, as in `verbs`: checkpoints hold none
_AGAIN, _PATIENCE = 50, 60_000  # ms
_FULL = 3600  # seconds without a checkpoint after one that the disk had no room for


class Wish(Value):
    """How often, in minutes, and how many are kept: number, days, MiB."""

    minutes: int
    number: int
    days: int
    mib: int


def begin(session: store.Session, record: store.Record, wish: Wish) -> int:
    """Start the process that takes checkpoints; return its pid for `end`."""
    return beside(lambda: _serve(session.but(lock=-1), record, wish))


def beside(serve: "Callable[[], None]", kept: int = -1, nice: int = _NICE) -> int:
    """Do something in a process of its own until the launcher ends, or `end` is called with what is returned.

    `kept`: a descriptor that stays open there, as number 3.
    """
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _part(launcher, kept)
            os.nice(nice)
            gc.set_threshold(_MANY)
            serve()
        finally:
            os._exit(1)
    return pid


def end(pid: int) -> None:
    """End it; what it had begun is not there."""
    os.kill(pid, signals.KILL)
    os.waitpid(pid, 0)


def end_well(pid: int, patience: int = _PATIENCE) -> None:
    """End one that ends by SIGTERM when what it does is done, or after so many ms whatever it does.

    It is asked again and again: just after its fork it would not hear.
    """
    pidfd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    for _ in range(0, patience, _AGAIN):
        os.kill(pid, signals.TERM)
        if poll.poll(_AGAIN):
            break
    else:
        os.kill(pid, signals.KILL)
    os.close(pidfd)
    os.waitpid(pid, 0)


def _part(launcher: int, kept: int) -> None:
    """Leave the terminal and every descriptor of the launcher's but one, its lock above all."""
    os.setsid()
    kernel.die_with_parent()
    if os.getppid() != launcher:
        os._exit(1)
    for number in (signals.INT, signals.QUIT, signals.HUP, signals.TERM):
        signals.default(number)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    if kept >= 0:
        os.dup2(kept, 3, inheritable=False)
    os.closerange(3 if kept < 0 else 4, os.sysconf("SC_OPEN_MAX"))


def _serve(session: store.Session, record: store.Record, wish: Wish) -> None:
    from agent_dev.checkpoint import checkpoint_store as checkpoints  # in this process alone
    from agent_dev.checkpoint import freezer  # in this process alone
    from agent_dev.checkpoint import lock as turns  # in this process alone
    from agent_dev.errors import CheckpointFailed
    from agent_dev.session import events  # in this process alone

    events.note(session, events.START, at=record.get("launched", 0), argv=record["command"], profile=record["profile"])
    cause = checkpoints.START
    while True:
        pause = wish.minutes * 60
        try:
            checkpoints.take(session, record, cause)
            thin(session, wish)
        except turns.GaveWay:
            pass  # whoever waited takes one now
        except CheckpointFailed:
            pause = max(pause, _FULL)  # told at the end; the agent goes on
        if cause == checkpoints.START:
            freezer.gather(session, record)  # not before: the first one is to be of the start
        cause = checkpoints.TIMER
        time.sleep(pause)


def thin(session: store.Session, wish: Wish) -> None:
    """Let go of the checkpoints that need not be kept."""
    from agent_dev.checkpoint import checkpoint_store as checkpoints  # not on the launch path
    from agent_dev.checkpoint.restore_plan import MINUTE, Keep

    checkpoints.let_go(session, Keep.of(wish.number, wish.days, wish.mib), wish.minutes * MINUTE)
