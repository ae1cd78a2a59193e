"""Run code as an ordinary user, also in tests as root (to which permissions do not apply), or with its own mounts."""

import ctypes
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_dev.linux import syscalls

NOBODY = 65534


@contextmanager
def ordinary_users_directory(within: str | None = None) -> Iterator[Path]:
    """Yield a new directory that belongs to the ordinary user of `call_as_ordinary_user`."""
    folder = Path(tempfile.mkdtemp(prefix="agent-dev-test-", dir=within))
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, onerror=_open_and_retry)


def _open_and_retry(function: Callable[[str], object], path: str, error: tuple[object, BaseException, object]) -> None:
    """Retry with permission; accept that a program under test, which removes its session while others run, was first."""
    if isinstance(error[1], FileNotFoundError):
        return
    with suppress(FileNotFoundError):
        os.chmod(os.path.dirname(path), 0o700)
        if not os.path.islink(path):
            os.chmod(path, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, onerror=_open_and_retry)
        else:
            function(path)


def call_as_ordinary_user(act: Callable[[], None]) -> None:
    """Call `act` in a process of an ordinary user; fail with its traceback if it raises."""
    if os.getuid() == 0:
        _in_child(_become_nobody, act)
    else:
        act()


def call_with_own_mounts(act: Callable[[], None]) -> None:
    """Call `act` in a process with its own mount namespace; fail with its traceback if it raises."""
    _in_child(_leave_mounts, act)


def _become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    make_dumpable()
    os.umask(0o022)


def make_dumpable() -> None:
    """Make this process dumpable (prctl(2)): otherwise /proc/self belongs to root, and no namespace can be mapped."""
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE


def _leave_mounts() -> None:
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        syscalls.unshare(syscalls.NEWNS)
    else:
        syscalls.unshare(syscalls.NEWUSER | syscalls.NEWNS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    syscalls.mount(None, "/", None, syscalls.REC | syscalls.SLAVE)


def _in_child(prepare: Callable[[], None], act: Callable[[], None]) -> None:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _act(prepare, act, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        output = file.read().decode()
    _, status = os.waitpid(pid, 0)
    if output or status:
        raise AssertionError(f"in a child process ({status}):\n{output}")


def _act(prepare: Callable[[], None], act: Callable[[], None], write_end: int) -> None:
    try:
        prepare()
        act()
    except BaseException:  # noqa: BLE001  (reported to the test that forked this process)
        os.write(write_end, traceback.format_exc().encode())
    finally:
        os._exit(0)
