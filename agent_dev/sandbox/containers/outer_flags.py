"""Flags that the container around agent-dev needs, so that sandboxes can be made in it."""

import os
import socket

from agent_dev.linux import syscalls
from agent_dev.sandbox import failure_hints, probe, setup_process


def missing_flags() -> tuple[str, ...]:
    """Return the flags that are missing, each after a trial in a child process; empty outside a container."""
    if not failure_hints.is_container():
        return ()
    trials = ((_set_hostname, failure_hints.SECCOMP_FLAG), (_mount_proc, failure_hints.proc_flag()))
    return tuple(flag for trial, flag in trials if probe.error_in_child(trial))


def _set_hostname() -> None:
    """Do what the system-call filters of container engines deny."""
    setup_process.enter_namespaces()
    syscalls.unshare(syscalls.NEWUTS)
    socket.sethostname("sandbox")


def _mount_proc() -> None:
    """Mount a /proc for a new PID namespace, which the kernel permits only if no part of /proc is masked."""
    setup_process.enter_namespaces()
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.mount("proc", "/proc", "proc", syscalls.NOSUID | syscalls.NODEV | syscalls.NOEXEC)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    _, status = os.waitpid(pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise OSError(code, os.strerror(code))
