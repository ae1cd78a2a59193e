"""The index of an agent home after each session: which index a session is compared with, and its removal with the home."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from agent_dev.home import index, index_paths, index_process
from tests.harness.program import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "state/homes").mkdir(parents=True)
    return tmp_path / "home"


def began() -> int:
    """Return a start time for a session, later than the ctime of every file so far even on a coarse clock."""
    now = time.time_ns()
    wait_until(lambda: time.time_ns() > now + 2 * index._CLOCK, "a moment later")
    return time.time_ns()


def ended(home: Path, launched: int) -> set[str]:
    """End a session; return the paths that its home contained before, according to the index."""
    state = str(home.parent / "state")
    index_process.start_indexing(state, str(home), launched)
    held = index.read_previous(state, str(home))
    assert held is not None
    os.wait()
    return set(held)


def test_the_last_sessions_changes_are_relative_to_the_one_before(home: Path) -> None:
    (home / "one").touch()
    assert ended(home, began()) == set()
    launched = began()
    (home / "two").touch()
    assert ended(home, launched) == {"one"}
    assert ended(home, began()) == {"one", "two"}


def test_an_index_written_during_a_session_hides_none_of_its_changes(home: Path) -> None:
    (home / "one").touch()
    ended(home, began())
    long, short = began(), began()
    (home / "by-the-long-one").touch()
    assert ended(home, short) == {"one"}
    assert ended(home, long) == {"one"}


def test_a_partly_written_index_is_removed_with_its_home(home: Path) -> None:
    state = str(home.parent / "state")
    ended(home, began())
    where = index_paths.index_prefix(state, str(home))
    lock = os.open(f"{where}.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    pid = os.fork()
    if pid == 0:  # the child writes the index slowly, after the parent has had time to remove the existing one
        try:
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline and os.path.exists(f"{where}.last"):
                time.sleep(0.01)
            Path(f"{where}.last").write_text("{}")
        finally:
            os._exit(0)
    os.close(lock)  # only the child still has the lock
    index.remove_indexes(state, str(home))
    os.waitpid(pid, 0)
    assert os.listdir(f"{state}/homes") == []
