"""Options and subcommands around sessions that can be detached, without a terminal."""

import pytest

from tests.harness.program import AgentDev, wait_until


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--detachable", "--", "true"), "--detachable needs a terminal"),
        (("--detach", "--record", "file", "--", "true"), "--record cannot be combined with"),
        (("--detach", "status"), "status: --detach is only for a run"),
        (("--detachable", "stop"), "stop: --detachable is only for a run"),
        (("--detach", "tx", "--", "true"), "tx: --detach is only for a run"),
        (("tx", "--detachable", "--", "true"), "tx: --detachable is only for a run"),
        (("attach",), "attach needs a terminal"),
        (("--detach",), "an agent is missing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_that_cannot_be_detached_is_refused(agent_dev: AgentDev, words: tuple[str, ...], message: str) -> None:
    done = agent_dev(*words)
    assert (done.returncode, message in done.stderr) == (125 if "tx" in words else 2, True), done.stderr
    assert "hint:" in done.stderr
    assert agent_dev.session_directories() == []


@pytest.mark.parametrize("line", ["detach_key: d", "detach_key: ctrl-1 d", "detachable: 1", "detach_key: ctrl-a"])
def test_a_wrong_key_of_config_yaml_is_refused(agent_dev: AgentDev, line: str) -> None:
    folder = agent_dev.home.parent / "config/agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"{line}\n")
    done = agent_dev("--detach", "--", "true")
    assert done.returncode == 125, done.stderr
    assert f"config.yaml:1: {line.partition(':')[0]}" in done.stderr
    assert agent_dev.session_directories() == []


@pytest.mark.parametrize(("words", "code"), [(("no-such-program",), 127), (("./README.md",), 126)])
def test_a_detached_run_that_does_not_start_is_reported(agent_dev: AgentDev, words: tuple[str, ...], code: int) -> None:
    done = agent_dev("--detach", "--", *words)
    assert done.returncode == code
    assert done.stderr.startswith(f"agent-dev: {words[0]}: not ")
    assert agent_dev.session_directories() == []


def test_a_detached_session_keeps_its_changes(agent_dev: AgentDev) -> None:
    agent_dev("--detach", "--name", "one", "--", "sh", "-c", "test -t 0 && stty size >made; sleep 0.1; exit 4")
    wait_until(lambda: agent_dev.sessions()[0]["state"] == "waiting", "it ended")
    [row] = agent_dev.sessions()
    assert (row["exit"], row["detached"]) == (4, False)
    agent_dev.do("merge", "one", "--all")
    assert (agent_dev.repo / "made").read_text() == "24 80\n"


def test_a_detached_session_that_a_limit_ends_waits(agent_dev: AgentDev) -> None:
    agent_dev("--detach", "--limit", "time=1", "--", "sh", "-c", "echo x >made; exec sleep 600")
    wait_until(lambda: agent_dev.sessions()[0]["state"] == "waiting", "it ended")
    assert agent_dev.sessions()[0]["exit"] == 143


def test_exec_and_stop_work_on_a_detached_session(agent_dev: AgentDev) -> None:
    agent_dev("--detach", "--name", "one", "--", "sh", "-c", "echo x >made; exec sleep 600")
    assert agent_dev.sessions()[0]["detached"] is True
    assert agent_dev.do("exec", "one", "--", "cat", "made") == "x\n"
    assert "session one stopped; its changes are kept" in agent_dev.do("stop", "one")
