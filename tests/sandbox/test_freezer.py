"""A checkpoint of a running session is of one moment, where the machine has a freezer for it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint, freezer
from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.sandbox import cgroup_limits as cgroup
from agent_dev.session import approvals as questions
from agent_dev.session import events, store
from agent_dev.session.sessions import Listed
from tests.harness.program import PYTHON, AgentDev, wait_until
from tests.sandbox.waiting import end

pytestmark = pytest.mark.only_root  # an ordinary user has a group to make only where systemd gives one, as no test machine does

# Two files that are written one after the other, with many between: a reader that sees the first sees the second later.
WRITER = """
import os, select
for number in range(2000):
    open(f"m{number:04}", "w").write(str(number))
os.mkdir("of")
number = 0
while not select.select([0], [], [], 0)[0]:
    number += 1
    for name in ("first", "last"):
        with open("of/new", "w") as file:
            file.write(str(number))
        os.rename("of/new", f"{'a' if name == 'first' else 'z'}-{name}")
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine take its time until all stands still."""
    monkeypatch.setattr(freezer, "_PATIENCE", 60)


@contextmanager
def writing(agent_dev: AgentDev) -> Iterator[tuple[store.Session, store.Record]]:
    """A session in which a program writes for ever, once it is in its group."""
    with agent_dev.started("--", PYTHON, "-c", WRITER) as process:
        session = grouped(agent_dev)
        wait_until(lambda: in_group(session), "all of it is in the group")
        wait_until(lambda: os.path.exists(f"{upper(session)}/z-last"), "the program writes")
        yield session, store.read(session)
        end(process)


def grouped(agent_dev: AgentDev) -> store.Session:
    """Return the session that has a group, when there is one."""
    folder = wait_until(lambda: [one for one in agent_dev.state.glob("sessions/*") if groups(one.name)], "one has a group")[0]
    return store.Session(folder.name, str(folder))


def in_group(session: store.Session) -> bool:
    return cgroup.group(store.read(session)["init"]).endswith("-still")


def groups(name: str) -> list[str]:
    return [place for place in cgroup.places() if os.path.isdir(f"{place}/{cgroup.named(name)}-still")]


def upper(session: store.Session) -> str:
    return session.root(0, "").upper


def now(session: store.Session) -> int:
    return int(Path(upper(session), "a-first").read_text())


def went_on(session: store.Session) -> None:
    was = now(session)
    wait_until(lambda: now(session) > was, "the program goes on")


def test_a_checkpoint_of_a_running_session_is_of_one_moment(agent_dev: AgentDev, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezer, "MOST", 60)
    with writing(agent_dev) as (session, record):
        for _ in range(5):
            taken = checkpoint.take(Listed(session, record, store.RUNNING))
            held = checkpoints.table(session, taken)
            first, last = (int(content(session, held[name].content)) for name in ("a-first", "z-last"))
            assert first - last in (0, 1)
            went_on(session)
        told = [row for row in events.read(session, store.read(session)).rows if row["event"] == events.CHECKPOINT]
        assert [row["frozen"] for row in told if row["cause"] == checkpoints.MANUAL] == [True] * 5
    assert not groups(session.id)


def content(session: store.Session, digest: str) -> bytes:
    fd = checkpoints.content(session, digest)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def test_a_sandbox_goes_on_when_who_stopped_it_is_killed(agent_dev: AgentDev, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezer, "MOST", 600)
    with writing(agent_dev) as (session, record):
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            with freezer.frozen(session, record) as stands_still:
                os.write(tell, b"y" if stands_still() else b"n")
                signal.pause()
        assert os.read(told, 1) == b"y"
        os.killpg(child, signal.SIGKILL)  # as a shell ends a job
        os.waitpid(child, 0)
        went_on(session)


def test_a_sandbox_goes_on_when_what_it_was_stopped_for_takes_long(agent_dev: AgentDev, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezer, "MOST", 5)
    with writing(agent_dev) as (session, record), freezer.frozen(session, record) as stands_still:
        assert stands_still()
        went_on(session)
        assert not stands_still()


def test_one_in_which_a_command_waits_for_the_user_runs_on(agent_dev: AgentDev) -> None:
    with writing(agent_dev) as (session, record):
        questions.put(session.folder, 7, {})
        with freezer.frozen(session, record) as stands_still:
            assert not stands_still()
        questions.remove(session.folder, 7)


def test_the_group_of_a_session_whose_launcher_was_killed_is_removed_by_the_next(agent_dev: AgentDev) -> None:
    with agent_dev.started("--", PYTHON, "-c", WRITER) as process:
        dead = grouped(agent_dev).id
        process.kill()
        process.wait()
    assert groups(dead)
    with agent_dev.started("--", PYTHON, "-c", WRITER) as process:
        wait_until(lambda: not groups(dead), "the group is gone")
        end(process)
