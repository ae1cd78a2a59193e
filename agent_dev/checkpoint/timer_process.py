"""The background process of a run that takes checkpoints: at the start, then at an interval if something changed.

It runs at the lowest priority and ends with the launcher.
"""

import gc
import os
import time

from agent_dev.linux import process
from agent_dev.session import store
from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NICE = 19
_GC_THRESHOLD = 100_000  # garbage collection threshold: checkpoints hold no cycles
_FULL_DISK_PAUSE = 3600  # seconds to pause after a full disk


class TimerSpec(Value):
    """The interval in minutes, and the retention: number, days, MiB."""

    minutes: int
    number: int
    days: int
    mib: int


def start_timer(session: store.Session, record: store.Record, spec: TimerSpec) -> int:
    """Start the process that takes checkpoints; return its pid for `process.terminate`.

    It must not be killed while it has made a file readable: an unfinished checkpoint does not exist, but a mode would stay.
    """

    def serve() -> None:
        process.exit_on_sigterm()
        _serve(session.replace(lock=-1), record, spec)

    return start_background(serve)


def start_background(serve: "Callable[[], None]", kept_fd: int = -1, nice: int = _NICE) -> int:
    """Run `serve` in a background process until the launcher ends, or ends it by `process.terminate`; return its pid.

    `kept_fd`: a descriptor that stays open there as number 3.
    """
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                _detach(launcher, kept_fd)
                os.nice(nice)
                gc.set_threshold(_GC_THRESHOLD)
                serve()
            finally:
                os._exit(1)
        finally:  # SIGTERM may have raised just before
            os._exit(1)
    return pid


def _detach(launcher: int, kept_fd: int) -> None:
    """Detach from the terminal and close all descriptors of the launcher, in particular its lock, except one."""
    process.leave_launcher(launcher)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    if kept_fd >= 0:
        os.dup2(kept_fd, 3, inheritable=False)
    os.closerange(3 if kept_fd < 0 else 4, os.sysconf("SC_OPEN_MAX"))


def _serve(session: store.Session, record: store.Record, spec: TimerSpec) -> None:
    from agent_dev.checkpoint import checkpoint_store, lock
    from agent_dev.errors import CheckpointFailed
    from agent_dev.session import events  # only in this process

    events.log_event(session, events.START, at=record.get("launched", 0), argv=record["command"], profile=record["profile"])
    cause = checkpoint_store.START
    while True:
        pause = spec.minutes * 60
        try:
            checkpoint_store.take_checkpoint(session, record, cause)
            prune(session, spec)
        except lock.YieldedLock:
            pass  # the process that waits for the lock takes a checkpoint now
        except CheckpointFailed:
            pause = max(pause, _FULL_DISK_PAUSE)  # reported at the end; the agent continues
        cause = checkpoint_store.TIMER
        time.sleep(pause)


def prune(session: store.Session, spec: TimerSpec) -> None:
    """Prune checkpoints by the retention rules."""
    from agent_dev.checkpoint import checkpoint_store  # not on the launch path
    from agent_dev.snapshot_retention import MINUTE, RetentionLimits

    checkpoint_store.prune(session, RetentionLimits.from_settings(spec.number, spec.days, spec.mib), spec.minutes * MINUTE)
