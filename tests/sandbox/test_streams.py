"""Output that is closed or cannot be written: what was asked for is done, and one line says what is wrong."""

import pytest

from tests.harness.program import AgentDev


def shell(redirection: str) -> tuple[str, ...]:
    """Return what runs a command with streams redirected as a shell says it."""
    return ("sh", "-c", f'exec "$0" "$@" {redirection}')


@pytest.fixture
def changed(agent_dev: AgentDev) -> AgentDev:
    """A session with a change waits, whose patch is larger than a buffer."""
    assert agent_dev("--", "sh", "-c", "seq 5000 >new").returncode == 0
    return agent_dev


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "words",
    ["status", "diff", "sessions", "profiles", "doctor", "--help", "--version", "merge --all", "tx -- touch made", "discard"],
)
def test_a_closed_stream_is_none_and_changes_nothing_else(changed: AgentDev, words: str, closed: str) -> None:
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


def test_questions_to_nobody_are_answered_by_nobody(changed: AgentDev) -> None:
    done = changed("merge", "--plain", before=shell("<&-"))
    assert (done.returncode, done.stderr) == (0, "")


def test_inside_a_closed_stream_is_nothing(agent_dev: AgentDev) -> None:
    script = "for number in 0 1 2; do readlink /proc/$$/fd/$number; done | cat >seen"
    assert agent_dev("--", "sh", "-c", script, before=shell("<&- >&- 2>&-")).returncode == 0
    assert agent_dev("merge", "--all").returncode == 0
    assert (agent_dev.repo / "seen").read_text() == "/dev/null\n" * 3


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", ["status", "diff", "sessions --json", "--help", "profiles claude"])
def test_output_on_a_full_disk_is_one_line(changed: AgentDev, words: str, env: dict[str, str]) -> None:
    done = changed(*words.split(), env=env, before=shell(">/dev/full"))
    assert done.stderr == "agent-dev: the output could not be written: No space left on device\n"
    assert done.returncode == 1
