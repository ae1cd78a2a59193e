"""Freeze a sandbox while a checkpoint is copied, with the freezer of its own control group (cgroups(7) version 2).

Frozen processes do not notice it; with SIGSTOP, a shell would see its job stop. The sandbox is in that group from the start, if
one can be created (`linux/cgroups.py`). A child process freezes the sandbox and thaws it: on request, after one second, or when
its parent is killed. docs/decisions/0014-checkpoint-pool.md.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_dev.linux import cgroups, signals
from agent_dev.sandbox import cgroup_limits
from agent_dev.session import approvals, store

MAX_FROZEN_SECONDS = 1.0  # seconds; afterwards the agent is thawed, and files that change are copied again
_PATIENCE = 0.2  # seconds for all processes to freeze
_FROZEN = b"y"


def _group_of(pid: int) -> str:
    """Return the control group of a process if it is a sandbox's own, else ""."""
    folder = cgroup_limits.group_of(pid)
    is_own = folder.rpartition("/")[2].startswith(cgroups.PREFIX)
    return folder if is_own and os.access(f"{folder}/cgroup.freeze", os.W_OK) else ""


@contextmanager
def freeze(session: store.Session, record: store.Record) -> Iterator[Callable[[], bool]]:
    """Freeze a running sandbox for at most a second; yield a function that returns whether it is still frozen.

    A sandbox without a group is not frozen, nor is one in which a command waits for the user's answer, since it cannot be frozen.
    """
    folder = _group_of(record.get("init", 0))
    if not folder or _has_threads() or approvals.count_by_kind(session.folder)[0]:
        yield bool  # bool() is False: nothing is frozen
        return
    status_read, status_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(done_write)
            _freeze_until(folder, status_write, done_read)
        finally:
            os._exit(0)
    os.close(status_write)
    os.close(done_read)
    try:
        is_frozen = os.read(status_read, 1) == _FROZEN
        yield lambda: is_frozen and not _is_closed(status_read)
    finally:
        os.close(done_write)
        os.waitpid(pid, 0)
        _freeze(folder, 0)  # in case it was killed
        os.close(status_read)


def _is_closed(status_read: int) -> bool:
    """Return whether the other end of a pipe is closed."""
    poll = select.poll()
    poll.register(status_read, 0)
    return bool(poll.poll(0))


def _has_threads() -> bool:
    threading = sys.modules.get("threading")
    return threading is not None and threading.active_count() > 1


def _freeze_until(folder: str, status_write: int, done_read: int) -> None:
    """Freeze a group, report the result, and thaw it when `done_read` is closed or the time is up."""
    os.setsid()  # a signal to the parent's process group must not kill this process
    signals.ignore(signals.PIPE)
    try:
        deadline = time.monotonic() + MAX_FROZEN_SECONDS
        is_frozen = _freeze(folder, 1) and _wait_frozen(folder, min(deadline, time.monotonic() + _PATIENCE))
        os.write(status_write, _FROZEN if is_frozen else b"n")
        if is_frozen:
            poll = select.poll()
            poll.register(done_read, select.POLLIN)
            poll.poll(max(0, deadline - time.monotonic()) * 1000)
    finally:
        os.close(status_write)  # before anything runs: later reads must not count as frozen
        _freeze(folder, 0)


def _freeze(folder: str, value: int) -> bool:
    try:
        with open(f"{folder}/cgroup.freeze", "wb", 0) as file:
            file.write(b"%d" % value)
    except OSError:
        return False  # the sandbox has ended, and its group is gone
    return True


def _wait_frozen(folder: str, deadline: float) -> bool:
    """Wait until all processes of a group are frozen: waiting for a disk or for the policy's answer delays it."""
    with open(f"{folder}/cgroup.events", "rb", 0) as file:
        poll = select.poll()
        poll.register(file, select.POLLPRI)
        while b"frozen 1" not in os.pread(file.fileno(), 256, 0):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            poll.poll(remaining * 1000)
    return True
