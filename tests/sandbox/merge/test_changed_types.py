"""Changes between a file and a link, of paths that the user changed too."""

import os
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, tree

SCRIPT = "rm note link gone touched; ln -s other note; echo new >link; ln -s other gone; ln -s other touched"
KINDS = ("note", "link", "gone")


@pytest.fixture
def edited(agent_dev: AgentDev) -> Path:
    """A repository in which both sides changed three paths, and the user wrote one file again with the same content."""
    repo = agent_dev.repo
    for name in ("note", "gone", "touched"):
        (repo / name).write_text("old\n")
    (repo / "link").symlink_to("README.md")
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "names")
    agent_dev.ended_session(SCRIPT)
    (repo / "note").write_text("mine\n")
    (repo / "link").unlink()
    (repo / "link").symlink_to("mine")
    (repo / "gone").unlink()
    (repo / "touched").unlink()
    (repo / "touched").write_text("old\n")
    return repo


def contents(repo: Path) -> dict[str, str | None]:
    """Return the target or the text of each path; None if it does not exist."""
    paths = {name: repo / name for name in (*KINDS, "touched")}
    return {
        name: os.readlink(path) if path.is_symlink() else path.read_text() if path.exists() else None
        for name, path in paths.items()
    }


YOURS = {"note": "mine\n", "link": "mine", "gone": None, "touched": "old\n"}
AGENT = {"note": "other", "link": "new\n", "gone": "other", "touched": "other"}


def test_only_changed_content_is_a_conflict(agent_dev: AgentDev, edited: Path) -> None:
    done = agent_dev("merge", "--all")
    assert done.returncode == 1
    assert contents(edited) == YOURS | {"touched": "other"}
    assert "conflict: note: it was a file: yours is a file, the agent's a symlink" in done.stdout


@pytest.mark.parametrize(("side", "wanted"), [("agent", AGENT | {"touched": "old\n"}), ("yours", YOURS)])
def test_a_conflict_of_types_is_resolved_by_a_side_and_undone(
    agent_dev: AgentDev, edited: Path, side: str, wanted: dict[str, str | None]
) -> None:
    before = tree(edited)
    done = agent_dev("merge", *(word for name in KINDS for word in ("--resolve", f"{name}={side}")))
    assert (done.returncode, contents(edited)) == (0, wanted), done.stderr
    merged = tree(edited)
    assert (agent_dev("undo").returncode, tree(edited)) == (0, before)
    assert (agent_dev("redo").returncode, tree(edited)) == (0, merged)
