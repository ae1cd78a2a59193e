"""CONTAINMENT D: passwords, tokens and the stash in the user's git directory."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.containment.rows import RESIDUAL, row
from tests.harness.program import AgentDev

TOKEN = "canary-of-a-token"  # noqa: S105  (not a password)
SETTINGS = {
    "remote.origin.url": f"https://ada:{TOKEN}@example.invalid/shop.git",
    "remote.origin.pushurl": f"https://{TOKEN}@example.invalid/shop.git",
    f"url.https://{TOKEN}@example.invalid/.insteadOf": "https://example.invalid/",
    "http.proxy": f"http://ada:{TOKEN}@proxy.invalid:3128",
    "http.https://example.invalid/.extraheader": f"Authorization: Bearer {TOKEN}",
    "sendemail.smtppass": TOKEN,
    "remote.mirror.url": f"https://example.invalid/shop.git?private_token={TOKEN}",
    "imap.pass": TOKEN,
    "credential.helper": "!f() { echo password=" + TOKEN + "; }; f",
    "submodule.lib.url": f"https://{TOKEN}@example.invalid/lib.git",
}
READ = f"""
    grep -rls {TOKEN} .git $(git rev-parse --git-common-dir) /run/agent-dev 2>/dev/null | head
    git config --list | grep {TOKEN}; true"""


@pytest.fixture
def tokens(agent_dev: AgentDev) -> AgentDev:
    """Return a repository with tokens in every part of its git directory."""
    for key, value in SETTINGS.items():
        agent_dev.git("config", "--add", key, value)
    git = agent_dev.repo / ".git"
    (git / "git-credentials").write_text(f"https://ada:{TOKEN}@example.invalid\n")
    (git / "netrc").write_text(f"machine example.invalid login ada password {TOKEN}\n")
    (git / "deploy_key").write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{TOKEN}\n")
    (git / "more").write_text(f"[http]\n\textraHeader = X: {TOKEN}\n")
    agent_dev.git("config", "include.path", "more")
    (git / "FETCH_HEAD").write_text(f"{'0' * 40}\t\tbranch 'main' of https://{TOKEN}@example.invalid/shop\n")
    with (git / "logs/HEAD").open("a") as file:
        head = agent_dev.git("rev-parse", "HEAD").strip()
        file.write(f"{head} {head} Ada <ada@example.invalid> 1 +0000\tclone: from https://{TOKEN}@example.invalid/shop\n")
    module = git / "modules/lib"
    subprocess.run(["git", "init", "-q", "--bare", str(module)], check=True)
    with (module / "config").open("a") as file:
        file.write(f'[remote "origin"]\n\turl = https://{TOKEN}@example.invalid/lib.git\n')
    return agent_dev


@row(
    "read tokens in the git directory: URLs, headers, passwords, credential stores, keys, reflogs, submodules",
    "they are removed from the agent's copy, and reported by name; git works without them",
)
def test_d31_the_agents_git_directory_contains_no_token(tokens: AgentDev) -> None:
    before = (tokens.repo / ".git/config").read_bytes()
    done = tokens("--", "sh", "-c", f"{READ}; git status -s; git log -1 --format=%s; git remote get-url origin")
    assert TOKEN not in done.stdout, done.stdout
    assert not done.stdout.startswith(".git"), done.stdout
    assert done.stdout.endswith("https://example.invalid/shop.git\n"), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "not in the agent's git directory" in line]
    assert "remote.origin.url" in line
    assert TOKEN not in done.stderr
    assert (tokens.repo / ".git/config").read_bytes() == before
    shown = json.dumps(json.loads(tokens("show", "--json", "bash").stdout))
    assert "not in the agent's git directory" in shown


def test_d31_the_same_holds_in_a_linked_worktree_and_with_direct(tokens: AgentDev, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    tokens.git("worktree", "add", "-q", "-b", "side", linked)
    tokens.git("config", "extensions.worktreeConfig", "true")
    tokens.git("-C", linked, "config", "--worktree", "github.token", TOKEN)
    assert tokens("--", "sh", "-c", READ, cwd=linked).stdout == ""
    assert tokens("run", "--direct", "--", "sh", "-c", READ).stdout == ""


def test_d31_a_git_directory_without_secrets_is_copied_silently(agent_dev: AgentDev) -> None:
    agent_dev.git("remote", "add", "origin", "ssh://git@example.invalid/shop.git")
    done = agent_dev("--", "git", "remote", "get-url", "origin")
    assert (done.stdout, done.stderr) == ("ssh://git@example.invalid/shop.git\n", "")


@row("read your stash", "the agent gets no ref to it, which is reported; its objects can be read by id", RESIDUAL)
@pytest.mark.parametrize("is_packed", [False, True])
def test_d32_the_stash_is_not_listed_but_its_objects_exist(agent_dev: AgentDev, *, is_packed: bool) -> None:
    (agent_dev.repo / "README.md").write_text(TOKEN)
    agent_dev.git("stash", "-q")
    if is_packed:
        agent_dev.git("pack-refs", "--all")
    stash = agent_dev.git("rev-parse", "refs/stash").strip()
    script = (
        f"git stash list; git rev-parse -q --verify refs/stash; git log -g refs/stash 2>/dev/null; git show {stash}:README.md"
    )
    done = agent_dev("--", "sh", "-c", script)
    assert done.stdout == TOKEN
    assert "not in the agent's git directory: your stash" in done.stderr
    assert agent_dev.git("stash", "list") != ""
    assert agent_dev.sessions() == []
