"""Doing something as an ordinary user, also in a test that root runs (permissions mean nothing to root), or with own mounts."""

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_dev.linux import syscalls as kernel

NOBODY = 65534


@contextmanager
def open_place(within: str | None = None) -> Iterator[Path]:
    """Yield a new directory that belongs to the ordinary user of `as_ordinary`."""
    place = Path(tempfile.mkdtemp(prefix="agent-dev-test-", dir=within))
    if os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    try:
        yield place
    finally:
        shutil.rmtree(place, onerror=_open_and_retry)


def _open_and_retry(function: Callable[[str], object], path: str, _: object) -> None:
    os.chmod(os.path.dirname(path), 0o700)
    if not os.path.islink(path):
        os.chmod(path, 0o700)
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, onerror=_open_and_retry)
    else:
        function(path)


def as_ordinary(act: Callable[[], None]) -> None:
    """Call `act` in a process of an ordinary user; fail with its traceback when it raises."""
    if os.getuid() == 0:
        _in_child(_become_nobody, act)
    else:
        act()


def with_own_mounts(act: Callable[[], None]) -> None:
    """Call `act` in a process whose mounts are its own; fail with its traceback when it raises."""
    _in_child(_leave_mounts, act)


def _become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.umask(0o022)


def _leave_mounts() -> None:
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        kernel.unshare(kernel.NEWNS)
    else:
        kernel.unshare(kernel.NEWUSER | kernel.NEWNS)
        for name, words in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path(f"/proc/self/{name}").write_text(words)
    kernel.mount(None, "/", None, kernel.REC | kernel.SLAVE)


def _in_child(prepare: Callable[[], None], act: Callable[[], None]) -> None:
    answer, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(answer)
        _act(prepare, act, told)
    os.close(told)
    with os.fdopen(answer, "rb") as file:
        words = file.read().decode()
    _, status = os.waitpid(pid, 0)
    if words or status:
        raise AssertionError(f"in a process of its own ({status}):\n{words}")


def _act(prepare: Callable[[], None], act: Callable[[], None], told: int) -> None:
    try:
        prepare()
        act()
    except BaseException:  # noqa: BLE001  (whatever it is belongs to the test that forked this process)
        os.write(told, traceback.format_exc().encode())
    finally:
        os._exit(0)
