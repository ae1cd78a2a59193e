"""Trying what a sandbox needs, in children that leave nothing behind."""

import os
from collections.abc import Callable

from agent_dev.linux import syscalls as kernel
from agent_dev.sandbox import setup_process as keeper


def namespaces() -> str:
    """Return why user, mount and pid namespaces cannot be made here, "" when they can."""
    return _in_child(keeper.enter_namespaces)


def overlay(folder: str) -> str:
    """Return why an upper in `folder` cannot be mounted, "" when it can."""
    for name in ("lower", "upper", "work", "mount"):
        os.mkdir(f"{folder}/{name}")

    def trial() -> None:
        keeper.enter_namespaces()
        kernel.mount(None, "/", None, kernel.REC | kernel.SLAVE)
        target = os.open(f"{folder}/mount", os.O_PATH | os.O_DIRECTORY)
        keeper.mount_overlay(f"{folder}/lower", f"{folder}/upper", f"{folder}/work", target)

    reason = _in_child(trial)
    work = f"{folder}/work/work"  # the kernel's own, of mode 000
    if os.path.isdir(work):
        os.chmod(work, 0o700)
    return reason


def _in_child(trial: Callable[[], None]) -> str:
    answer, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            trial()
        except OSError as error:
            os.write(w, str(error.strerror or error).encode())
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(answer, "rb") as file:
        reason = file.read().decode("utf-8", "replace")
    os.waitpid(pid, 0)
    return reason
