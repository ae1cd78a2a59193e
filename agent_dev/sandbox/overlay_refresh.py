"""Remount the overlays of a running sandbox to make changes of the lower layer visible."""

import os

from agent_dev.linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NS_GET_USERNS, _NS_GET_PARENT = 0xB701, 0xB702


def refresh_overlays(pid: int, roots: tuple[str, ...]) -> bool:
    """Remount the overlays in the mount namespace of `pid` so that replaced lower names are looked up again.

    A child does this, since a process cannot return from a namespace. Returns whether it worked.
    """
    return _succeeds_in_child(lambda: _remount(pid, roots))


def _succeeds_in_child(work: "Callable[[], None]") -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except OSError:
            pass  # reported by the exit code
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status == 0


def _remount(pid: int, roots: tuple[str, ...]) -> None:
    import fcntl  # only in the child that needs them

    from agent_dev.sandbox import overlay_root

    root_fds = [
        overlay_root.open_overlay(pid, root) for root in roots
    ]  # not by path: the agent could redirect it to another mount
    if -1 in root_fds:
        raise FileNotFoundError(2, "an overlay is no longer at its mount point")
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    user_namespace = fcntl.ioctl(mounts, _NS_GET_USERNS)
    for _ in range(3):
        if _remount_as(user_namespace, mounts, root_fds):
            return
        user_namespace = fcntl.ioctl(user_namespace, _NS_GET_PARENT)  # mounted by the setup process, in the parent namespace
    raise PermissionError(1, "not in the overlay's user namespace")


def _remount_as(user_namespace: int, mounts: int, roots: list[int]) -> bool:
    def work() -> None:
        syscalls.setns(user_namespace, syscalls.NEWUSER)
        syscalls.setns(mounts, syscalls.NEWNS)
        for root in roots:
            os.fchdir(root)
            syscalls.mount(None, ".", None, syscalls.REMOUNT | syscalls.NOSUID | syscalls.NODEV | syscalls.RELATIME)

    return _succeeds_in_child(work)
