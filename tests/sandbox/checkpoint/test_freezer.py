"""The freezer: a checkpoint of a running session shows one moment, and a frozen sandbox always resumes."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store, freezer, operations
from agent_dev.linux import cgroups
from agent_dev.sandbox import cgroup_limits
from agent_dev.session import approvals, events, store
from agent_dev.session.sessions import ListedSession
from tests.harness.program import PYTHON, AgentDev, wait_until
from tests.sandbox.waiting import end

pytestmark = pytest.mark.only_root  # only systemd gives an ordinary user a cgroup to write to, and no test machine runs it

# Write two files in turn, with many others between them by name: a scan that is not frozen reads them from different rounds.
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
    """Raise the time limit for all processes to freeze: the machine may be busy."""
    monkeypatch.setattr(freezer, "_PATIENCE", 60)


@contextmanager
def writing(agent_dev: AgentDev) -> Iterator[tuple[store.Session, store.Record]]:
    """Yield a session whose program writes forever, and its record; it is in its cgroup, and has no periodic checkpoints."""
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("checkpoint_minutes: 0\n")
    with agent_dev.start("--", PYTHON, "-c", WRITER) as process:
        session = begun(agent_dev)
        wait_until(lambda: os.path.exists(f"{upper(session)}/z-last"), "the program writes")
        yield session, store.read_record(session)
        end(process)


def begun(agent_dev: AgentDev) -> store.Session:
    """Return the running session once its processes are in their cgroup."""
    folder = wait_until(lambda: list(agent_dev.state.glob("sessions/*/session.json")), "one has begun")[0].parent
    session = store.Session(folder.name, str(folder))
    wait_until(lambda: cgroups.PREFIX in group_of(session), "it is in its group")
    return session


def group_of(session: store.Session) -> str:
    return cgroup_limits.group_of(store.read_record(session).get("init", 0))


def upper(session: store.Session) -> str:
    return session.root(0, "").upper


def now(session: store.Session) -> int:
    return int(Path(upper(session), "a-first").read_text())


def went_on(session: store.Session) -> None:
    was = now(session)
    wait_until(lambda: now(session) > was, "the program goes on")


def test_a_checkpoint_of_a_running_session_is_taken_at_one_moment(agent_dev: AgentDev, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezer, "MAX_FROZEN_SECONDS", 60)
    with writing(agent_dev) as (session, record):
        folder = group_of(session)
        for _ in range(5):
            taken = operations.take_manual(ListedSession(session, record, store.RUNNING))
            held = checkpoint_store.read_table(session, taken)
            first, last = (int(content(session, held[name].content)) for name in ("a-first", "z-last"))
            assert first - last in (0, 1)
            went_on(session)
        reported = [
            row for row in events.read_events(session, store.read_record(session)).rows if row["event"] == events.CHECKPOINT
        ]
        assert [row["frozen"] for row in reported if row["cause"] == checkpoint_store.MANUAL] == [True] * 5
    assert not os.path.exists(folder)


def content(session: store.Session, digest: str) -> bytes:
    fd = checkpoint_store.open_content(session, digest)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def test_a_frozen_sandbox_resumes_when_the_freezing_process_is_killed(
    agent_dev: AgentDev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freezer, "MAX_FROZEN_SECONDS", 600)
    with writing(agent_dev) as (session, record):
        reported, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            with freezer.freeze(session, record) as stands_still:
                os.write(tell, b"y" if stands_still() else b"n")
                signal.pause()
        assert os.read(reported, 1) == b"y"
        os.killpg(child, signal.SIGKILL)  # as a shell ends a job: the whole process group
        os.waitpid(child, 0)
        went_on(session)


def test_a_frozen_sandbox_resumes_when_the_freezing_task_takes_too_long(
    agent_dev: AgentDev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freezer, "MAX_FROZEN_SECONDS", 5)
    with writing(agent_dev) as (session, record), freezer.freeze(session, record) as stands_still:
        assert stands_still()
        went_on(session)
        assert not stands_still()


def test_a_sandbox_is_not_frozen_while_a_command_waits_for_the_user(agent_dev: AgentDev) -> None:
    with writing(agent_dev) as (session, record):
        number = approvals.add_question(session.folder, {})
        with freezer.freeze(session, record) as stands_still:
            assert not stands_still()
        approvals.remove_question(session.folder, number)


def test_the_next_start_removes_the_cgroup_of_a_killed_launcher(agent_dev: AgentDev) -> None:
    with agent_dev.start("--", PYTHON, "-c", WRITER) as process:
        dead = group_of(begun(agent_dev))
        process.kill()
        process.wait()
    assert os.path.isdir(dead)
    agent_dev("--", "true")
    wait_until(lambda: not os.path.exists(dead), "the group is gone")
