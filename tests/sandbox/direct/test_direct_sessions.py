"""A session of direct mode has no overlay: commands name the restore instead of claiming that nothing changed."""

from collections.abc import Iterator

import pytest

from tests.harness.program import AgentDev, wait_until

WORDS = ("--name", "d", "run", "--direct", "--", "sh", "-c", "echo 1 >one; exec sleep 600")
_LIST = "to list them: agent-dev restore --dry-run\n"


@pytest.fixture
def running(agent_dev: AgentDev) -> Iterator[AgentDev]:
    """Yield the program while an agent that made a file works in the real tree."""
    with agent_dev.start(*WORDS):
        wait_until((agent_dev.repo / "one").exists, "the file of the agent")
        yield agent_dev


def test_status_and_stop_name_the_restore(running: AgentDev) -> None:
    printed = running.do("status")
    assert ("its changes are in the real tree\n" in printed, _LIST in printed, "no changes" in printed) == (True, True, False)
    assert running.status()["direct"] is True
    assert running.do("stop", "d") == f"session d stopped; its changes are in the real tree\n{_LIST}"
    assert "deleted  one" in running.do("restore", "--dry-run")


@pytest.mark.parametrize(
    "words",
    [("diff",), ("diff", "--stat"), ("checkpoint",), ("rollback", "1"), ("deleted",)],
    ids="-".join,
)
def test_commands_about_the_overlay_are_refused(running: AgentDev, words: tuple[str, ...]) -> None:
    done = running(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "session d works in the real tree: it has no overlay" in done.stderr
    assert "hint: agent-dev restore --dry-run lists its changes" in done.stderr


def test_after_a_killed_launcher_status_names_the_restore_but_no_resume(agent_dev: AgentDev) -> None:
    with agent_dev.start(*WORDS) as process:
        wait_until((agent_dev.repo / "one").exists, "the file of the agent")
        process.kill()
    printed = agent_dev.do("status")
    assert printed.endswith(f"{_LIST}to revert them: agent-dev restore\n")
    assert ("no changes" in printed, "resume" in printed) == (False, False)
