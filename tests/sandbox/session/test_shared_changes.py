"""Files that several open sessions have changed are named by `sessions`, `status` and on the review screen."""

import json
from pathlib import Path

import pytest

from agent_dev.session import sessions, shared_changes, store
from tests.harness.program import AgentDev


@pytest.fixture
def both(agent_dev: AgentDev) -> AgentDev:
    """Return the program with two waiting sessions that have some changes in common."""
    for name in ("a", "same", "touched", "folder/x", "whole/y"):
        path = agent_dev.repo / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")
    (agent_dev.repo / ".gitignore").write_text("cache/\n")
    common = "mkdir -p cache; echo c > cache/c; echo text > touched; git config x.y z; git update-ref refs/heads/x HEAD"
    agent_dev.git("add", "-A")
    agent_dev.git("-c", "user.name=me", "-c", "user.email=me@here", "commit", "-qm", "mine")
    agent_dev.ended_session(
        f"{common}; echo 1 > a; echo 1 > folder/x; rm -r whole; echo 1 > new; echo 1 > first", "--name", "one"
    )
    agent_dev.ended_session(
        f"{common}; rm a; echo 2 > folder/z; echo 2 > whole/y; echo 2 > new; echo 2 > second", "--name", "two"
    )
    return agent_dev


def shared(agent_dev: AgentDev) -> dict[str, int]:
    """Return path → number of sessions of the shared changes, relative to the repository."""
    rows = json.loads(agent_dev.do("sessions", "--json"))["shared"]
    return {str(Path(row["path"]).relative_to(agent_dev.repo)): len(row["sessions"]) for row in rows}


def test_sessions_names_the_files_that_both_have_changed(both: AgentDev) -> None:
    assert shared(both) == {"a": 2, "new": 2, "whole": 2}
    text = both.do("sessions")
    assert text.endswith("changed by several sessions:\n  a  (one, two)\n  new  (one, two)\n  whole  (one, two)\n")


def test_status_notes_the_other_session(both: AgentDev) -> None:
    assert [note for note in both.status("one")["notes"] if "also" in note] == [
        f"{name} is also changed by two" for name in ("a", "new", "whole")
    ]
    assert "note: new is also changed by one" in both.do("status", "two")


def test_a_running_session_counts_and_a_discarded_one_does_not(both: AgentDev) -> None:
    with both.start("--no-merge", "--name", "three", "--", "sh", "-c", "echo 3 > new; echo ready; read line") as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        assert shared(both) == {"a": 2, "new": 3, "whole": 2}
        both.do("discard", "one")
        assert shared(both) == {"new": 2}


def test_sessions_of_other_work_trees_are_listed_and_compared(agent_dev: AgentDev) -> None:
    agent_dev.ended_session("echo 1 > new; echo 1 > README.md; echo 1 > alone", "--name", "one")
    agent_dev.ended_session("echo 2 > new; echo 2 > README.md", "--name", "two", "--worktree", "fix")
    lines = agent_dev.do("sessions").splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["one", "two"]
    assert "~/src/shop.fix" in lines[1]
    assert lines[2:] == ["changed by several sessions:", "  README.md  (one, two)", "  new  (one, two)"]
    (tree,) = {row["root"] for row in agent_dev.sessions(cwd=agent_dev.repo.with_name("shop.fix")) if row["name"] == "two"}
    assert tree == str(agent_dev.repo.with_name("shop.fix"))
    assert agent_dev("sessions", cwd=agent_dev.home).stdout == "no running or waiting sessions\n"


def test_one_session_shares_nothing(agent_dev: AgentDev) -> None:
    agent_dev.ended_session("echo 1 > a", "--name", "one")
    assert shared(agent_dev) == {}
    assert "several" not in agent_dev.do("sessions")


def test_directories_of_one_session_alone_are_not_read(both: AgentDev, monkeypatch: pytest.MonkeyPatch) -> None:
    both.ended_session("mkdir -p huge/below; for n in 1 2 3; do echo $n > huge/below/$n; done", "--name", "three")
    read: list[bytes] = []
    names = shared_changes._Search._names

    def counting(search: shared_changes._Search, session: str, folder: bytes) -> list[tuple[bytes, bool]]:
        read.append(folder)
        return names(search, session, folder)

    monkeypatch.setattr(shared_changes._Search, "_names", counting)
    found = sessions.list_sessions(store.Store(str(both.state)))
    assert len(shared_changes.find_shared_changes(found, dict(both.env))) == 3
    assert set(read) == {b"", b"folder"}


def test_links_in_an_upper_are_not_followed(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("x")
    for name in ("one", "two"):
        agent_dev.ended_session(f"ln -s {tmp_path}/outside link; mkfifo pipe", "--name", name)
    assert shared(agent_dev) == {"link": 2, "pipe": 2}
