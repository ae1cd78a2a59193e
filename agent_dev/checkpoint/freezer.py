"""Stopping a sandbox while a checkpoint is copied: the freezer of a control group of its own, cgroups(7) version 2.

What is stopped so sees nothing of it, where SIGSTOP tells a shell that its job was stopped. The group is made beside the agent
when it has begun, where one can be made: moving a process costs a millisecond, which no start shall pay. A process of ours stops
the sandbox and lets it go on, by itself after a second, and when whoever asked is killed. docs/decisions/0014-checkpoints.md.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_dev.linux import process as callers
from agent_dev.linux import signals
from agent_dev.sandbox import cgroup_limits as cgroup
from agent_dev.session import approvals as questions
from agent_dev.session import store

MOST = 1.0  # seconds: after that the agent goes on, and what changes meanwhile is copied again
_PATIENCE = 0.2  # seconds for all of it to stand still
_ROUNDS = 100  # of moving: a sandbox that forks faster than that is not stopped
_TRIES = 3  # of making a group: a session that begins in this moment may sweep it away as long as nobody is in it
_OURS = "still"
_YES = b"y"


def gather(session: store.Session, record: store.Record) -> None:
    """Put all processes of a sandbox into a group of their own, where one can be made and they have none."""
    init = record.get("init", 0)
    if not init or _group_of(init, session.id):
        return
    for place in cgroup.places():
        _sweep(place)
        folder = f"{place}/{cgroup.named(session.id)}-{_OURS}"
        for _ in range(_TRIES):
            try:
                os.mkdir(folder)
            except FileExistsError:
                pass  # of a run of the same session that was killed
            except OSError:
                break
            if _gather_all(folder, init, session.id):
                return
            _remove(folder)


def _gather_all(folder: str, init: int, name: str) -> bool:
    """Move all processes, the first one last: when that is in the group, nothing is outside."""
    for _ in range(_ROUNDS):  # one that was not there yet has forked meanwhile
        outside = [pid for pid in _descendants(init) if not _group_of(pid, name) and not callers.is_ending(pid)]
        if not outside:
            return cgroup.put(folder, init)
        if not any([cgroup.put(folder, pid) for pid in outside]):  # noqa: C419  (all of them)
            return False
    return False


def _descendants(init: int) -> list[int]:
    """Return the processes below one, as far as they are there yet."""
    found = [init]
    for pid in found:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb", 0) as file:
                    found += map(int, file.read().split())
        except OSError:
            continue
    return found[1:]


def close(session: store.Session) -> None:
    """Remove the group of a sandbox that is over."""
    for place in cgroup.places():
        _remove(f"{place}/{cgroup.named(session.id)}-{_OURS}")


def _sweep(place: str) -> None:
    """Remove the groups whose launchers were killed; one in which something runs stays."""
    for name in os.listdir(place):
        if name.startswith(cgroup.named("")) and name.endswith(f"-{_OURS}"):
            _remove(f"{place}/{name}")


def _remove(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        pass  # none, or somebody is in it


def _group_of(pid: int, name: str) -> str:
    """Return the group of a process if it is one of this session's own, made by us or by systemd for its limits; else ""."""
    folder = cgroup.group(pid)
    own = cgroup.named(name)
    is_own = folder.rpartition("/")[2] in (own, f"{own}.scope", f"{own}-{_OURS}")
    return folder if is_own and os.access(f"{folder}/cgroup.freeze", os.W_OK) else ""


@contextmanager
def frozen(session: store.Session, record: store.Record) -> Iterator[Callable[[], bool]]:
    """Keep a running sandbox from running meanwhile, for a second at most; what is yielded tells whether it stands still yet.

    One without a group runs on, and so does one in which a command waits for the user's answer: that cannot stand still.
    """
    folder = _group_of(record.get("init", 0), session.id)
    if not folder or _has_threads() or questions.listed(session.folder):
        yield bool  # False
        return
    told, tell = os.pipe()
    over, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(done)
            _hold(folder, tell, over)
        finally:
            os._exit(0)
    os.close(tell)
    os.close(over)
    try:
        is_still = os.read(told, 1) == _YES
        yield lambda: is_still and not _is_over(told)
    finally:
        os.close(done)
        os.waitpid(pid, 0)
        _freeze(folder, 0)  # should it have been killed
        os.close(told)


def _is_over(told: int) -> bool:
    """Whether the other end of a pipe is closed."""
    poll = select.poll()
    poll.register(told, 0)
    return bool(poll.poll(0))


def _has_threads() -> bool:
    threading = sys.modules.get("threading")
    return threading is not None and threading.active_count() > 1


def _hold(folder: str, tell: int, over: int) -> None:
    """Stop a group, tell whether it stands still, and let it go on when `over` is closed, or it lasts too long."""
    os.setsid()  # what ends the group of who asked, with SIGKILL at worst, must not end us, too
    signals.ignore(signals.PIPE)
    try:
        until = time.monotonic() + MOST
        is_still = _freeze(folder, 1) and _stands_still(folder, min(until, time.monotonic() + _PATIENCE))
        os.write(tell, _YES if is_still else b"n")
        if is_still:
            poll = select.poll()
            poll.register(over, select.POLLIN)
            poll.poll(max(0, until - time.monotonic()) * 1000)
    finally:
        os.close(tell)  # before anything runs again, so that nobody takes what follows for one moment
        _freeze(folder, 0)


def _freeze(folder: str, value: int) -> bool:
    try:
        with open(f"{folder}/cgroup.freeze", "wb", 0) as file:
            file.write(b"%d" % value)
    except OSError:
        return False  # the sandbox is over, and its group gone
    return True


def _stands_still(folder: str, until: float) -> bool:
    """Wait for all of a group to stand still: what waits for a disk, or for the policy's answer, does not at once."""
    with open(f"{folder}/cgroup.events", "rb", 0) as file:
        poll = select.poll()
        poll.register(file, select.POLLPRI)
        while b"frozen 1" not in os.pread(file.fileno(), 256, 0):
            left = until - time.monotonic()
            if left <= 0:
                return False
            poll.poll(left * 1000)
    return True
