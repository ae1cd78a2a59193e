"""Files deleted by an agent, the repository's and its own, are listed and restored, during a session and after it."""

import json

from tests.harness.program import AgentDev
from tests.sandbox.sandbox.scripted_agent import checkpoint, obedient_agent, reported, shown


def listed(agent_dev: AgentDev) -> dict[str, object]:
    rows = json.loads(agent_dev("deleted", "--json").stdout)["deleted"]
    return {row["path"]: row["checkpoint"] for row in rows}


def prepared(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "docs/deep").mkdir(parents=True)
    (agent_dev.repo / "docs/a").write_text("a")
    (agent_dev.repo / "docs/deep/b").write_text("b")


def test_one_path_and_then_all_of_an_ended_session_are_restored(agent_dev: AgentDev) -> None:
    prepared(agent_dev)
    with obedient_agent(agent_dev) as process:
        reported(process, "mkdir own; echo mine >own/file; echo x >README.md")
        number = int(checkpoint(agent_dev))
        reported(process, "rm -r own docs")
    assert listed(agent_dev) == {"docs/a": None, "docs/deep/b": None, "own/file": number}
    assert agent_dev("deleted", "--restore", "docs/deep").returncode == 0
    assert agent_dev.changes() == {"README.md": "edited", "docs/a": "deleted"}
    assert agent_dev("deleted", "--restore", ".").returncode == 0
    assert agent_dev.changes() == {"README.md": "edited", "own/file": "added"}
    assert listed(agent_dev) == {}
    assert agent_dev("deleted", "--restore", "docs").returncode == 2


def test_a_running_agent_sees_restored_files_that_it_deleted(agent_dev: AgentDev) -> None:
    prepared(agent_dev)
    with obedient_agent(agent_dev) as process:
        reported(process, "mkdir own; echo mine >own/file")
        agent_dev("checkpoint")
        was = {path: row for path, row in shown(process).items() if not row.startswith("0o4")}
        reported(process, "rm -r own docs README.md")
        assert sorted(listed(agent_dev)) == ["README.md", "docs/a", "docs/deep/b", "own/file"]
        assert agent_dev("deleted", "--restore", ".").returncode == 0
        assert {path: row for path, row in shown(process).items() if not row.startswith("0o4")} == was
