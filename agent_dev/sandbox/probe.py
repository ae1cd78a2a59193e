"""Test the kernel features that a sandbox needs, in child processes that leave nothing behind."""

import os
from collections.abc import Callable

from agent_dev.linux import syscalls
from agent_dev.sandbox import setup_process
from agent_dev.sandbox.cgroup_limits import LimitGroups

_ENOUGH = 1 << 30  # bytes, for a process that only waits


def namespaces_error() -> str:
    """Return why user, mount and pid namespaces cannot be created here, "" if they can."""
    return error_in_child(setup_process.enter_namespaces)


def overlay_error(folder: str) -> str:
    """Return why an overlay with its upper layer in `folder` cannot be mounted, "" if it can."""
    for name in ("lower", "upper", "work", "mount"):
        os.mkdir(f"{folder}/{name}")

    def attempt() -> None:
        setup_process.enter_namespaces()
        syscalls.mount(None, "/", None, syscalls.REC | syscalls.SLAVE)
        target = os.open(f"{folder}/mount", os.O_PATH | os.O_DIRECTORY)
        setup_process.mount_overlay(f"{folder}/lower", f"{folder}/upper", f"{folder}/work", target)

    reason = error_in_child(attempt)
    work = f"{folder}/work/work"  # created by the kernel with mode 000
    if os.path.isdir(work):
        os.chmod(work, 0o700)
    return reason


def has_limit_groups(busctl: str, environ: dict[str, str]) -> bool:
    """Return whether a control group that limits a whole sandbox can be created; it is removed again."""
    missing: list[str] = []
    hold, hold_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(hold_w)
        os.read(hold, 1)  # until the parent closes its end
        os._exit(0)
    groups = LimitGroups(f"doctor-{pid}", {"memory": _ENOUGH}, busctl, environ, missing.extend)
    try:
        groups.add_process(pid, "inner")
    finally:
        os.close(hold_w)
        os.waitpid(pid, 0)
        os.close(hold)
        groups.close()
    return not missing


def error_in_child(attempt: Callable[[], None]) -> str:
    """Return why a trial fails in a child process, "" if it works."""
    output, output_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
        except OSError as error:
            os.write(output_w, str(error.strerror or error).encode())
        finally:
            os._exit(0)
    os.close(output_w)
    with os.fdopen(output, "rb") as file:
        reason = file.read().decode("utf-8", "replace")
    os.waitpid(pid, 0)
    return reason
