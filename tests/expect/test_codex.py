"""The real Codex in the real sandbox, against a scripted model server on this machine: with its own sandbox off and on."""

from pathlib import Path

import pytest

from tests.harness.agents import codex
from tests.harness.program import AgentDev, tree

# Codex intercepts this shell command and applies the patch itself.
EDIT = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: README.md
@@
-# Shop
+# The shop
*** Add File: docs/new.md
+made by the agent
*** End Patch
EOF"""
COMMIT = "rm sub/deep/note.txt && git add -A && git commit -qm 'Work of the agent' && git log -1 --format=%an"
OUTSIDE = "(echo >/run/outside) 2>/dev/null && echo wrote-$((40+2)); echo in >inside; echo tried"


@pytest.fixture
def shown(home: Path) -> list[str]:
    """Return options that mount Codex, to which the agent home has a link, pass its key through and merge nothing."""
    place = codex.install(home / "aihome/.local/agent")
    # Codex makes links to itself in its home, but refuses to in the directory for temporary files, and this home is in /tmp.
    return ["--no-merge", "--ro", str(place), "--env", f"{codex.KEY}=dummy", "--env", "TMPDIR=/var/tmp"]


def test_codex_works_inside_and_all_its_changes_are_applied(agent_dev: AgentDev, shown: list[str], repo: Path) -> None:
    before = tree(repo)
    with codex.ModelServer([EDIT, COMMIT, OUTSIDE, "rm inside"]) as server:
        done = agent_dev(*shown, "codex", *codex.arguments(server.url, "do it"), timeout=180)
    assert done.returncode == 0, done.stderr
    assert server.is_finished()
    assert "Ada Lovelace" in server.outputs[1], done.stderr
    assert "wrote-42" in server.outputs[2], "its own sandbox is off"
    assert tree(repo) == before
    assert agent_dev.changes() == {"README.md": "edited", "docs/new.md": "added", "sub/deep/note.txt": "deleted"}
    assert agent_dev("merge", "--all", "--include-risky", "--yes-delete-many").returncode == 0
    assert (repo / "README.md").read_text() == "# The shop\n"
    assert (repo / "docs/new.md").read_text() == "made by the agent\n"
    assert not (repo / "sub/deep/note.txt").exists()


def test_codex_works_with_its_own_sandbox(agent_dev: AgentDev, shown: list[str], repo: Path) -> None:
    """Use Codex's own sandbox, which is bubblewrap inside ours; as root it gets no /proc of its own, and Codex works without."""
    with codex.ModelServer([EDIT, OUTSIDE]) as server:
        words = codex.arguments(server.url, "do it", "-s", "workspace-write")
        done = agent_dev(*shown, "--", "codex", *words, timeout=180)
    assert done.returncode == 0, done.stderr
    assert server.is_finished()
    assert "wrote-42" not in server.outputs[1], "its own sandbox is on"
    assert "tried" in server.outputs[1], done.stderr
    assert agent_dev.changes() == {"README.md": "edited", "docs/new.md": "added", "inside": "added"}
    assert agent_dev("merge", "--all").returncode == 0
    assert (repo / "README.md").read_text() == "# The shop\n"
    assert (repo / "inside").read_text() == "in\n"
