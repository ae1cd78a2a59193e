"""Closed, unwritable or ASCII standard streams: the command still does its work, and one line reports an error."""

import pytest

from tests.harness.program import AgentDev


def shell(redirection: str) -> tuple[str, ...]:
    """Return the command prefix that runs agent-dev with a redirection, in shell syntax."""
    return ("sh", "-c", f'exec "$0" "$@" {redirection}')


@pytest.fixture
def changed(agent_dev: AgentDev) -> AgentDev:
    """Return a program with a waiting session, whose patch is larger than a buffer."""
    assert agent_dev("--", "sh", "-c", "seq 5000 >new").returncode == 0
    return agent_dev


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "words",
    ["status", "diff", "sessions", "profiles", "doctor", "--help", "--version", "merge --all", "tx -- touch made", "discard"],
)
def test_a_closed_stream_reads_as_none_and_changes_nothing_else(changed: AgentDev, words: str, closed: str) -> None:
    done = changed(*words.split(), before=shell(closed))
    assert done.returncode in ((0, 1) if words == "doctor" else (0,)), done.stderr
    assert "Traceback" not in done.stderr
    assert "NoneType" not in done.stderr
    if words.startswith(("merge", "discard")):
        assert changed.sessions() == []
    if words.startswith("merge"):
        assert (changed.repo / "new").read_text().endswith("5000\n")
        undone = changed("undo", before=shell(closed))
        assert (undone.returncode, "NoneType" in undone.stderr) == (0, False), undone.stderr
        assert not (changed.repo / "new").exists()


def test_a_prompt_without_input_gets_no_answer(changed: AgentDev) -> None:
    done = changed("merge", "--plain", before=shell("<&-"))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stream_closed_outside_is_dev_null_inside(agent_dev: AgentDev) -> None:
    script = "for number in 0 1 2; do readlink /proc/$$/fd/$number; done | cat >seen"
    assert agent_dev("--", "sh", "-c", script, before=shell("<&- >&- 2>&-")).returncode == 0
    assert agent_dev("merge", "--all").returncode == 0
    assert (agent_dev.repo / "seen").read_text() == "/dev/null\n" * 3


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", ["status", "diff", "sessions --json", "--help", "diff --help", "profiles claude"])
def test_output_to_a_full_disk_fails_with_one_line(changed: AgentDev, words: str, env: dict[str, str]) -> None:
    done = changed(*words.split(), env=env, before=shell(">/dev/full"))
    assert done.stderr == "agent-dev: cannot write the output: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize("words", ["--help", "merge --help", "profiles claude"])
def test_output_to_a_closed_pipe_ends_as_on_sigpipe(agent_dev: AgentDev, words: str) -> None:
    done = agent_dev(*words.split(), before=("bash", "-c", '{ sleep 0.2; "$0" "$@"; } | true; exit ${PIPESTATUS[0]}'))
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "env",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["streams", "file system"],
)
def test_characters_that_an_encoding_lacks_are_escaped(agent_dev: AgentDev, env: dict[str, str]) -> None:
    assert agent_dev("--", "sh", "-c", "echo ä >ü", env=env).returncode == 0
    outputs = {}
    for words in ("--help", "exec --help", "status", "status --json", "diff --stat", "diff", "merge --all", "undo"):
        done = agent_dev(*words.split(), env=env)
        assert (done.returncode, done.stderr) == (0, ""), words
        outputs[words] = done.stdout

    assert "[ARGS\\u2026]" in outputs["exec --help"]
    assert "\\xfc" in outputs["status"]
    assert "\n+ä\n" in outputs["diff"]
