"""A deletion is an ordinary change if git can restore the file; others, and files that matter by themselves, need review."""

import json

import pytest

from tests.harness.program import AgentDev


def risks(agent_dev: AgentDev) -> dict[str, list[str]]:
    """Return the names of the risk rules of each change."""
    return {change["path"]: [risk["rule"] for risk in change["risks"]] for change in agent_dev.status()["changes"]}


@pytest.fixture
def shop(agent_dev: AgentDev) -> AgentDev:
    """Return the program in a repository with files of each state."""
    repo = agent_dev.repo
    for name in ("clean.py", "edited.py", "staged.py", "test_clean.py", "test_kept.py", "kept.py", "LICENSE", "typed"):
        (repo / name).write_text(f"{name}\n" * 3)
    (repo / "link").symlink_to("clean.py")
    (repo / ".gitignore").write_text("ignored\n")
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "files")
    (repo / "edited.py").write_text("my edit\n")
    (repo / "staged.py").write_text("my staged edit\n")
    agent_dev.git("add", "staged.py")
    (repo / "untracked.py").write_text("new\n")
    (repo / "empty").mkdir()
    return agent_dev


def test_only_deletions_that_git_cannot_restore_are_risky(shop: AgentDev) -> None:
    script = "rm clean.py edited.py staged.py untracked.py test_clean.py link; rmdir empty; rm typed; mkdir typed; >typed/new"
    assert shop("--no-merge", "--", "sh", "-c", script).returncode == 0

    found = risks(shop)
    assert {path for path, rules in found.items() if rules} == {"edited.py", "untracked.py"}
    assert found["edited.py"] == found["untracked.py"] == ["deletion"]

    done = shop("merge", "--safe")  # another name of --all
    assert "not merged: 2 risky (agent-dev merge shows them)" in done.stdout
    assert (shop.repo / "edited.py").read_text() == "my edit\n"
    assert (shop.repo / "untracked.py").exists()
    gone = ["clean.py", "staged.py", "test_clean.py", "link", "empty"]
    assert not any((shop.repo / name).exists() or (shop.repo / name).is_symlink() for name in gone), done.stdout
    assert (shop.repo / "typed/new").exists()
    assert shop("undo").returncode == 0
    assert (shop.repo / "staged.py").read_text() == "my staged edit\n"
    assert (shop.repo / "link").is_symlink()


def test_allowed_risks_are_merged_with_all(shop: AgentDev) -> None:
    assert shop("--no-merge", "--", "sh", "-c", "rm edited.py; echo 'x=1' >.envrc").returncode == 0
    assert risks(shop)[".envrc"] != []

    done = shop("merge", "--all", "--allow", "deletion")
    assert "not merged: 1 risky (agent-dev merge shows them)" in done.stdout
    assert not (shop.repo / "edited.py").exists()
    assert not (shop.repo / ".envrc").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--all", "--allow", "deletoin"), "--allow deletoin: no such rule in risks.yaml (did you mean deletion?)"),
        (("--allow", "deletion"), "--allow requires --all, without --include-risky"),
        (("--all", "--include-risky", "--allow", "deletion"), "--allow requires --all, without --include-risky"),
    ],
)
def test_wrong_allowed_risks_are_errors(shop: AgentDev, words: tuple[str, ...], why: str) -> None:
    assert shop("--no-merge", "--", "rm", "edited.py").returncode == 0
    done = shop("merge", *words)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"agent-dev: {why}")
    assert (shop.repo / "edited.py").exists()


def test_a_deleted_test_of_a_changed_file_and_a_licence_are_risky(shop: AgentDev) -> None:
    assert shop("--no-merge", "--", "sh", "-c", "rm test_kept.py test_clean.py LICENSE; echo more >>kept.py").returncode == 0

    found = risks(shop)
    assert found == {"LICENSE": ["deleted-policy"], "kept.py": [], "test_clean.py": [], "test_kept.py": ["deleted-test"]}


def test_a_deletion_in_a_commit_is_not_risky_by_itself(shop: AgentDev) -> None:
    script = "git rm -q clean.py LICENSE && git commit -qm gone"
    assert shop("--no-merge", "--", "sh", "-c", script).returncode == 0

    found = json.loads(shop("merge", "--commits", "--json").stdout)["risky"]
    assert [(one["path"], one["risks"]) for one in found] == [("LICENSE", ["deleted-policy"])]


def test_without_git_every_deletion_of_a_file_is_risky(agent_dev: AgentDev) -> None:
    folder = agent_dev.home / "plain"
    folder.mkdir()
    (folder / "file").write_text("content\n")
    assert agent_dev("--no-merge", "--", "rm", "file", cwd=folder).returncode == 0

    shown = agent_dev("status", cwd=folder).stdout
    assert "file" in shown
    assert "! deletion" in shown
