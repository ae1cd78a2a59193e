"""`undo`, `redo` and `merges` name the session, when it was merged and the next command; an undo stays at the last merge."""

import json
from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.harness.repository import repository

LINES = "".join(f"line {number}\n" for number in range(20))


def run(agent_dev: AgentDev, name: str, script: str, *flags: str) -> str:
    """Run a script in a session, merge it, and return the id of the merge."""
    assert agent_dev("--no-merge", "--name", name, "--", "sh", "-c", script).returncode == 0
    done = agent_dev("merge", name, *(flags or ("--all",)))
    assert done.returncode == 0, done.stderr
    return str(json.loads(agent_dev("merges", "--json").stdout)["merges"][-1]["merge"])


@pytest.fixture
def partly_undone(agent_dev: AgentDev) -> tuple[AgentDev, str]:
    """Merge two sessions, edit a file of the second, and undo: that file is skipped. Yield the id of the first merge, too."""
    (agent_dev.repo / "text").write_text(LINES)
    first = run(agent_dev, "first", "echo new >new")
    run(agent_dev, "second", "sed -i s/^line.2$/agent/ text; echo other >other")
    edit(agent_dev.repo / "text", "line 17", "mine")
    done = agent_dev("undo")
    assert (done.returncode, (agent_dev.repo / "other").exists()) == (1, False)
    return agent_dev, first


def edit(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


def test_an_undo_stays_at_a_partly_undone_merge_and_changes_nothing(partly_undone: tuple[AgentDev, str]) -> None:
    agent_dev, first = partly_undone
    text = (agent_dev.repo / "text").read_text()
    done = agent_dev("undo")

    assert (done.returncode, (agent_dev.repo / "new").exists(), (agent_dev.repo / "text").read_text()) == (1, True, text)
    rows = done.stdout.splitlines()
    assert rows[1].startswith("session second, merged 20")
    assert rows[1].endswith(": nothing undone, 1 skipped")
    assert rows[2:] == [
        "to revert 1 skipped and keep your edits in it: agent-dev undo --three-way",
        f"to undo the merge before it: agent-dev undo {first}",
    ]
    assert [one["state"] for one in json.loads(agent_dev("merges", "--json").stdout)["merges"]] == ["merged", "partly undone"]


def test_the_offered_commands_complete_the_undo_and_undo_the_merge_before(partly_undone: tuple[AgentDev, str]) -> None:
    agent_dev, first = partly_undone
    assert agent_dev("undo", "--three-way").returncode == 0
    assert (agent_dev.repo / "text").read_text() == LINES.replace("line 17", "mine")
    done = agent_dev("undo", first)
    assert (done.returncode, (agent_dev.repo / "new").exists()) == (0, False)
    assert done.stdout.splitlines()[-1] == "to apply it again: agent-dev redo"
    assert "session first, merged " in agent_dev("redo").stdout
    assert (agent_dev.repo / "new").exists()


def test_an_undo_after_a_partly_undone_import_leaves_the_branch(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "text").write_text(LINES)
    for words in (("init", "-q"), ("add", "text"), ("commit", "-qm", "text")):
        agent_dev.git(*words)
    run(agent_dev, "first", "echo new >new; git add new; git commit -qm new", "--commits")
    head = agent_dev.git("rev-parse", "HEAD")
    run(agent_dev, "second", "sed -i s/^line.2$/agent/ text; echo other >other")
    edit(agent_dev.repo / "text", "line 17", "mine")
    assert [agent_dev("undo").returncode for _ in range(3)] == [1, 1, 1]
    assert agent_dev.git("rev-parse", "HEAD") == head
    assert (agent_dev.repo / "new").exists()


def test_merges_names_the_sessions_also_discarded_ones(partly_undone: tuple[AgentDev, str]) -> None:
    agent_dev, _ = partly_undone
    assert agent_dev("discard", "second").returncode == 0
    rows = agent_dev("merges").stdout.splitlines()
    assert [row.split("  ")[-1] for row in rows] == ["first: 1 added", "second: 1 added, 1 edited"]


def test_the_undo_of_a_merge_in_another_repository_is_named_with_its_id(agent_dev: AgentDev) -> None:
    """Typed where the message was printed, `agent-dev undo` alone would revert another merge."""
    agent_dev.do("--no-merge", "--name", "here", "--", "touch", "here")
    other = repository(agent_dev.home / "src/other")
    agent_dev.do("-C", other, "--no-merge", "--name", "there", "--", "touch", "there")
    assert agent_dev.do("merge", "here", "--all").endswith("in the session (agent-dev undo)\n")
    merged = agent_dev.do("merge", "there", "--all")
    command = merged.splitlines()[-1].rpartition("(agent-dev ")[2].removesuffix(")")
    undone = agent_dev.do(*command.split())
    assert ((agent_dev.repo / "here").exists(), (other / "there").exists()) == (True, False)
    agent_dev.do(*undone.splitlines()[-1].rpartition("agent-dev ")[2].split())
    assert ((agent_dev.repo / "here").exists(), (other / "there").exists()) == (True, True)


@pytest.mark.parametrize("words", [("--all", "--export="), ("--all", "--export", ""), ("",), ("--take", "")], ids=repr)
def test_an_empty_value_is_refused(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    """An unset variable of a script leaves one; `merge --all --export ""` merged."""
    agent_dev.do("--no-merge", "--", "touch", "new")
    done = agent_dev("merge", *words)
    assert (done.returncode, "is empty" in done.stderr, (agent_dev.repo / "new").exists()) == (2, True, False)
