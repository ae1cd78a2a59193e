"""The parent of a process or thread of the sandbox."""

import os
import subprocess
import sys
import threading

import pytest

from agent_dev.linux import process, syscalls


def test_the_parent_of_a_process_and_of_a_thread_is_found() -> None:
    found: list[tuple[int, int]] = []
    thread = threading.Thread(
        target=lambda: found.append((threading.get_native_id(), process.parent_pid(threading.get_native_id())))
    )
    thread.start()
    thread.join()
    [(number, parent)] = found
    assert number != os.getpid()
    assert parent == process.parent_pid(os.getpid()) == os.getppid()


def test_an_older_kernel_reports_parents_through_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_old(_: int) -> int:
        raise OSError

    monkeypatch.setattr(syscalls, "pidfd_parent", too_old)
    assert process.parent_pid(os.getpid()) == os.getppid()


def test_an_exited_process_has_no_parent() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(OSError, match="No such"):
        process.parent_pid(child.pid)
