"""What an agent home held at the end of each session: whose end is compared with whose, and what is taken away with a home."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from agent_dev.home import index as home_index
from tests.harness.program import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "state/homes").mkdir(parents=True)
    return tmp_path / "home"


def began() -> int:
    """Return a moment that is past by every clock, for a session that begins."""
    now = time.time_ns()
    wait_until(lambda: time.time_ns() > now + 2 * home_index._CLOCK, "a moment later")
    return time.time_ns()


def ended(home: Path, launched: int) -> set[str]:
    """End a session, and return the paths that its home held before, as far as is known."""
    state = str(home.parent / "state")
    home_index.begin(state, str(home), launched)
    held = home_index.before(state, str(home))
    assert held is not None
    os.wait()
    return set(held)


def test_what_the_last_session_found_is_what_the_one_before_it_left(home: Path) -> None:
    (home / "one").touch()
    assert ended(home, began()) == set()
    launched = began()
    (home / "two").touch()
    assert ended(home, launched) == {"one"}
    assert ended(home, began()) == {"one", "two"}


def test_an_index_that_was_written_while_a_session_ran_hides_nothing_of_what_that_did(home: Path) -> None:
    (home / "one").touch()
    ended(home, began())
    long, short = began(), began()
    (home / "by-the-long-one").touch()
    assert ended(home, short) == {"one"}
    assert ended(home, long) == {"one"}


def test_with_a_home_goes_also_an_index_that_is_being_written(home: Path) -> None:
    state = str(home.parent / "state")
    ended(home, began())
    where = home_index.place(state, str(home))
    lock = os.open(f"{where}.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    pid = os.fork()
    if pid == 0:  # who writes it, slowly: longer than anybody needs to take the one away that is there
        try:
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline and os.path.exists(f"{where}.last"):
                time.sleep(0.01)
            Path(f"{where}.last").write_text("{}")
        finally:
            os._exit(0)
    os.close(lock)  # the child's
    home_index.forget(state, str(home))
    os.waitpid(pid, 0)
    assert os.listdir(f"{state}/homes") == []
