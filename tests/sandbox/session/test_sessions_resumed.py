"""A resumed agent sees its own earlier changes and the user's; command, directory and exit code are those of a first run."""

from pathlib import Path

import pytest

from tests.harness.program import AgentDev, wait_until
from tests.sandbox.waiting import end, state, waiting_agent


def test_a_resumed_agent_sees_its_own_earlier_changes(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo mine >new; echo more >>README.md; rm sub/app.py; git add -A; git commit -qm Mine")
    done = agent_dev("resume", "--", "sh", "-c", "cat new README.md; ls sub; git log -1 --format=%s")
    assert done.stdout == "mine\n# Shop\nmore\ndeep\nMine\n", done.stderr


def test_a_resumed_agent_sees_the_users_later_edits_of_other_files(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo mine >new; cat sub/app.py >/dev/null")
    (agent_dev.repo / "sub/app.py").write_text("print('three')\n")
    (agent_dev.repo / "sub/later.py").write_text("later\n")
    done = agent_dev("resume", "--", "cat", "sub/app.py", "sub/later.py")
    assert done.stdout == "print('three')\nlater\n"


def test_the_users_later_edits_are_not_the_resumed_agents_changes(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    (agent_dev.repo / "sub/app.py").write_text("print('three')\n")
    agent_dev("resume", "--", "touch", "newer")
    assert agent_dev.changes() == {"new": "added", "newer": "added"}


def test_edits_in_a_directory_that_the_agent_made_unreadable_are_merged(agent_dev: AgentDev) -> None:
    place = agent_dev.repo / "sub/app.py"
    original = place.read_text()
    agent_dev("--no-merge", "--", "sh", "-c", "echo agent >>sub/app.py; chmod 311 sub")
    place.write_text(f"mine\n\n\n{original}")
    agent_dev("--no-merge", "resume", "--", "touch", "new")
    done = agent_dev("merge", "--all", "--include-risky")
    assert place.read_text() == f"mine\n\n\n{original}agent\n", done.stderr


def test_a_resumed_session_repeats_its_command(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo x >>counted; wc -l <counted")
    assert agent_dev("resume").stdout == "2\n"


def test_an_agent_that_cannot_continue_its_conversation_says_so(agent_dev: AgentDev) -> None:
    profile = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/profiles/mine.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text('command: [sh, -c, "echo x >>made"]\nagent: {npm: mine}\n')
    assert "new one" not in agent_dev("mine").stderr
    anew = "mine has no known way to continue its conversation: this is a new one\n"
    assert [anew in agent_dev(*words).stderr for words in (("resume",), ("resume", "--fresh"))] == [True, False]


def test_other_options_need_an_agent(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    done = agent_dev("resume", "--", "--model", "x")
    assert (done.returncode, done.stderr.splitlines()[-2:]) == (
        125,
        [
            "agent-dev: the session ran a command: only an agent takes other arguments",
            "agent-dev: hint: agent-dev resume SESSION -- COMMAND",
        ],
    )
    assert agent_dev.changes() == {"new": "added"}


def test_a_new_name_for_a_resumed_session_is_refused(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    done = agent_dev("--name", "other", "resume", "--", "touch", "more")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2), done.stderr
    assert agent_dev.changes() == {"new": "added"}


def test_a_resumed_session_starts_in_its_directory(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new", cwd=agent_dev.repo / "sub")
    assert agent_dev("resume", "--", "pwd").stdout == f"{agent_dev.repo}/sub\n"


def test_a_resumed_session_returns_the_agents_exit_code(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    assert agent_dev("resume", "--", "sh", "-c", "exit 7").returncode == 7


def test_a_session_that_cannot_be_resumed_is_unchanged(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    assert agent_dev("resume", "--", "no-such-command").returncode == 127
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"new": "added"})


@pytest.mark.parametrize(
    ("words", "config", "code"),
    [
        (("--allow", "x.test", "resume"), "", 125),
        (("--profile", "missing.yaml", "resume"), "", 125),
        (("--ro", "/no/such/path", "resume"), "", 125),
        (("resume",), "unknown: 1", 125),
        (("resume",), "ro: [/no/such/path]", 125),
        (("--limit", "memory=x", "resume"), "", 2),
        (("resume", "--unknown"), "", 2),
        (("resume", "other"), "", 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_the_exit_code_of_a_refused_resume_is_that_of_a_run(
    agent_dev: AgentDev, words: tuple[str, ...], config: str, code: int
) -> None:
    """Only the name of the session, and options of `resume` itself, can be wrong besides."""
    agent_dev.do("--", "touch", "new")
    file = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{config}\n")
    done = agent_dev(*words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    if words[-1] == "resume":
        assert agent_dev(*words[:-1], "--", "true").returncode == code
    file.unlink()
    assert (state(agent_dev), agent_dev.changes()) == (["waiting"], {"new": "added"})


def test_without_a_session_nothing_is_resumed(agent_dev: AgentDev) -> None:
    assert agent_dev("resume").returncode == 1


def test_a_resumed_agent_that_reverts_everything_leaves_nothing(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    agent_dev("resume", "--", "rm", "new")
    wait_until(lambda: agent_dev.session_directories() == [], "the state directory holds no session")


def test_a_running_session_cannot_be_resumed(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "true", "--name", "one") as process:
        done = agent_dev("resume", "one", "--", "echo", "ran")
        assert (done.returncode, done.stdout) == (1, "")
        end(process)
