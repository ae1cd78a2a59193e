"""Lines typed at a terminal before a dangerous question is asked do not answer it; lines from a pipe all count."""

from pathlib import Path

from tests.expect.settings.test_trust import asked, state
from tests.expect.test_person import session
from tests.harness.program import AgentDev
from tests.harness.terminal import Terminal
from tests.harness.trees import read


def work(agent_dev: AgentDev, script: str) -> None:
    assert agent_dev("--no-merge", "--", "sh", "-ec", f"umask 022; {script}").returncode == 0


def plain(agent_dev: AgentDev) -> Terminal:
    return session(agent_dev, "merge", "--plain")


def test_text_typed_before_the_first_question_merges_nothing(agent_dev: AgentDev, repo: Path) -> None:
    work(agent_dev, "echo new >new.txt")
    before = read(repo)
    with plain(agent_dev) as terminal:
        terminal.send("y\r" * 20)
        terminal.wait_for("[y,n,l,a,d,m,q,?]")
        terminal.send("q\r")
        terminal.wait_exit()
    assert read(repo) == before


def test_text_typed_before_the_last_question_merges_nothing(agent_dev: AgentDev, repo: Path) -> None:
    work(agent_dev, "echo new >new.txt")
    before = read(repo)
    with plain(agent_dev) as terminal:
        terminal.wait_for("[y,n,l,a,d,m,q,?]")
        terminal.send("y\ry\ry\r")
        terminal.wait_for("apply 1 change?")
        assert read(repo) == before
        terminal.send("n\r")
        terminal.wait_exit()
    assert read(repo) == before


def test_text_typed_before_the_question_selects_no_risky_change(agent_dev: AgentDev, repo: Path) -> None:
    work(agent_dev, "echo x >.envrc")
    with plain(agent_dev) as terminal:
        terminal.wait_for("[y,n,l,a,d,m,q,?]")
        terminal.send("y\ry\ry\r")
        terminal.wait_for("apply it anyway?")
        terminal.send("n\r")
        terminal.wait_exit()
    assert not (repo / ".envrc").exists()


def test_text_typed_after_each_question_counts(agent_dev: AgentDev, repo: Path) -> None:
    work(agent_dev, "echo new >new.txt")
    with plain(agent_dev) as terminal:
        terminal.wait_for("[y,n,l,a,d,m,q,?]")
        terminal.send("y\r")
        terminal.wait_for("apply 1 change?")
        terminal.send("y\r")
        assert terminal.wait_exit() == 0
    assert (repo / "new.txt").exists()


def test_text_typed_before_the_question_trusts_nothing(agent_dev: AgentDev) -> None:
    (agent_dev.repo / ".agent-dev.yaml").write_text("env: [SECRET]\n")
    with asked(agent_dev) as terminal:
        terminal.send("y\r" * 3)
        terminal.wait_for("trust it? [y/N]")
        terminal.send("\r")
        terminal.wait_exit()
    assert state(agent_dev) == "untrusted"
