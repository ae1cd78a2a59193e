"""What is asked about a process inside that starts a command."""

import os
import subprocess
import sys
import threading

import pytest

from agent_dev.linux import process as callers
from agent_dev.linux import syscalls as kernel


def test_the_parent_of_a_process_and_of_one_of_its_threads() -> None:
    found: list[tuple[int, int]] = []
    thread = threading.Thread(target=lambda: found.append((threading.get_native_id(), callers.parent(threading.get_native_id()))))
    thread.start()
    thread.join()
    [(number, parent)] = found
    assert number != os.getpid()
    assert parent == callers.parent(os.getpid()) == os.getppid()


def test_a_kernel_that_does_not_tell_parents_by_a_descriptor_tells_them_in_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_old(_: int) -> int:
        raise OSError

    monkeypatch.setattr(kernel, "parent", too_old)
    assert callers.parent(os.getpid()) == os.getppid()


def test_a_process_that_is_gone_has_no_parent() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(OSError, match="No such"):
        callers.parent(child.pid)
