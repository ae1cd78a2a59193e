"""`.agent-dev.yaml` applies only with the exact content that the user trusted, and never widens itself (D20 to D22)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import AgentDev, tree

WIDE = "env: [SECRET]\nset: {COLOUR: blue}\nmask: [.env]\nnet: none\n"
NETWORK = "import json, socket; print(json.dumps([name for _, name in socket.if_nameindex()]))"


def write(agent_dev: AgentDev, text: str) -> None:
    (agent_dev.repo / ".agent-dev.yaml").write_text(text)


def trusted(agent_dev: AgentDev, text: str) -> None:
    """Write the file and trust it."""
    write(agent_dev, text)
    done = agent_dev("trust", "--yes")
    assert done.returncode == 0, done.stderr


def shown(agent_dev: AgentDev) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(agent_dev("trust", "--show", "--json").stdout)
    return value


def variables(agent_dev: AgentDev, *options: str) -> str:
    done = agent_dev(*options, "--", "sh", "-c", 'echo "$SECRET-$COLOUR"', env={"SECRET": "hush"})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def has_network(agent_dev: AgentDev, *options: str) -> bool:
    """Return whether the sandbox plan shares the host's network."""
    return "--unshare-net" not in agent_dev(*options, "show", "--all", "bash").stdout


def test_an_untrusted_file_is_ignored_with_one_line(agent_dev: AgentDev) -> None:
    write(agent_dev, WIDE)
    done = agent_dev("--", "sh", "-c", 'echo "$SECRET-$COLOUR"', env={"SECRET": "hush"})
    assert (done.returncode, done.stdout) == (0, "-\n")
    assert [
        line for line in done.stderr.splitlines() if "not trusted" in line and "agent-dev trust" in line
    ] == done.stderr.splitlines()
    assert has_network(agent_dev)


def test_a_trusted_file_takes_effect(agent_dev: AgentDev) -> None:
    (agent_dev.repo / ".env").write_text("canary")
    trusted(agent_dev, WIDE)
    assert variables(agent_dev) == "hush-blue"
    assert agent_dev("--", "cat", ".env").stdout == ""
    assert not has_network(agent_dev)


def test_trust_shows_the_file_with_what_it_grants_and_restricts(agent_dev: AgentDev) -> None:
    write(agent_dev, WIDE + "rw: [~/out]\nshare: [docker]\n")
    printed = agent_dev("trust", "--yes").stdout
    assert "    env: [SECRET]\n" in printed
    assert "grants: passes through your variable SECRET\n" in printed
    assert "grants: lets the agent write ~/out directly, without review\n" in printed
    assert "grants: shares docker with the agent\n" in printed
    assert "restricts: removes the network\n" in printed
    assert "restricts: hides .env\n" in printed


WIDER = {
    "another variable": WIDE.replace("SECRET", "SECRET, OTHER"),
    "less masked": WIDE.replace("mask: [.env]\n", ""),
    "the network": WIDE.replace("none", "host"),
    "nothing at all": "",
    "a comment": WIDE + "# x\n",
}


@pytest.mark.parametrize("text", WIDER.values(), ids=WIDER.keys())
def test_after_any_change_only_the_previously_trusted_restrictions_hold(agent_dev: AgentDev, text: str) -> None:
    (agent_dev.repo / ".env").write_text("canary")
    trusted(agent_dev, WIDE)
    write(agent_dev, text)
    done = agent_dev("--", "sh", "-c", 'cat .env; echo "$SECRET-$COLOUR$OTHER"', env={"SECRET": "hush", "OTHER": "x"})
    assert done.stdout == "-\n", done.stderr
    assert "has changed since you trusted it" in done.stderr
    assert not has_network(agent_dev)
    assert shown(agent_dev)["state"] == "changed"


def test_a_change_takes_effect_after_the_user_trusts_it(agent_dev: AgentDev) -> None:
    trusted(agent_dev, WIDE)
    trusted(agent_dev, "set: {COLOUR: red}\n")
    assert variables(agent_dev) == "-red"
    assert has_network(agent_dev)


def test_trusting_a_new_content_revokes_the_old(agent_dev: AgentDev) -> None:
    trusted(agent_dev, WIDE)
    trusted(agent_dev, "set: {COLOUR: red}\n")
    write(agent_dev, WIDE)
    assert variables(agent_dev) == "-"


def test_revoked_trust_has_no_effect(agent_dev: AgentDev) -> None:
    trusted(agent_dev, WIDE)
    assert agent_dev("trust", "--revoke").stdout == "no longer trusted\n"
    assert agent_dev("trust", "--revoke").stdout == "it was not trusted\n"
    assert variables(agent_dev) == "-"
    assert has_network(agent_dev)


def test_trust_applies_to_one_root_alone(agent_dev: AgentDev, tmp_path: Path) -> None:
    trusted(agent_dev, WIDE)
    other = agent_dev.home / "src/else"
    other.mkdir()
    (other / ".agent-dev.yaml").write_text(WIDE)
    agent_dev.git("worktree", "add", "-q", "-b", "side", tmp_path / "linked")
    (tmp_path / "linked/.agent-dev.yaml").write_text(WIDE)
    for place in (other, tmp_path / "linked"):
        assert "not trusted" in agent_dev("--", "true", cwd=place).stderr


def test_a_file_written_by_an_agent_has_no_effect_inside_or_after_a_merge(agent_dev: AgentDev) -> None:
    trusted(agent_dev, WIDE)
    agent_dev("--", "sh", "-c", "echo 'env: [SECRET, OTHER]' >.agent-dev.yaml")
    assert variables(agent_dev) == "hush-blue"
    done = agent_dev("merge", "--all", "--json")
    assert [row["path"] for row in json.loads(done.stdout)["skipped"]] == [".agent-dev.yaml"]
    agent_dev("merge", "--take", ".agent-dev.yaml")
    assert variables(agent_dev) == "-"


def test_options_of_the_user_override_what_the_repository_grants(agent_dev: AgentDev) -> None:
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("set: {COLOUR: green}\nnet: none\n")
    trusted(agent_dev, "set: {COLOUR: blue}\nnet: host\n")
    assert variables(agent_dev) == "-green"
    assert not has_network(agent_dev)


def test_restrictions_of_the_repository_are_lifted_only_by_a_flag(agent_dev: AgentDev) -> None:
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("net: host\nnested: true\n")
    trusted(agent_dev, "net: none\nnested: false\n")
    assert not has_network(agent_dev)
    assert ["nested", "refused"] in [row.split()[:2] for row in agent_dev("show", "--all", "bash").stdout.splitlines()]
    assert has_network(agent_dev, "--net", "host")


REFUSED = {
    "programs: [rm]": "programs: not allowed in a repository",
    "home: ~/.ssh": "home: not allowed in a repository",
    "command: evil": "command: not allowed in a repository",
    "tools: [~/.config]": "tools: not allowed in a repository",
    "path: [~/x]": "path: not allowed in a repository",
    "state: /x": "state: not allowed in a repository",
    "extends: claude": "extends: not allowed in a repository",
    "nett: none": "nett: unknown key (did you mean net?)",
    "net: wide": "net: wide is not one of host, none",
    "ro: [x]": "ro: x is not absolute",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_file_with_forbidden_settings_cannot_be_trusted(agent_dev: AgentDev, text: str) -> None:
    write(agent_dev, f"{text}\n")
    done = agent_dev("trust", "--yes")
    assert done.returncode == 2
    assert f"{agent_dev.repo}/.agent-dev.yaml:1: {REFUSED[text]}" in done.stderr
    assert "not trusted" in agent_dev("--", "true").stderr


def test_without_a_terminal_and_without_yes_nothing_is_trusted(agent_dev: AgentDev) -> None:
    write(agent_dev, WIDE)
    assert agent_dev("trust").returncode == 2
    assert agent_dev("trust", input="y\n").returncode == 2
    assert shown(agent_dev)["state"] == "untrusted"


def test_a_symlink_or_fifo_in_its_place_is_not_read(agent_dev: AgentDev, tmp_path: Path) -> None:
    trusted(agent_dev, WIDE)
    (tmp_path / "wide").write_text(WIDE)
    file = agent_dev.repo / ".agent-dev.yaml"
    for kind in ("link", "pipe", "directory"):
        file.unlink()
        if kind == "link":
            file.symlink_to(tmp_path / "wide")
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
        done = agent_dev("--", "sh", "-c", 'echo "$SECRET"', env={"SECRET": "hush"})
        assert (done.stdout, "ignoring" in done.stderr) == ("\n", True)
        assert not has_network(agent_dev)
        assert agent_dev("trust", "--yes").returncode == 2
    file.rmdir()


def test_hostile_text_is_escaped(agent_dev: AgentDev) -> None:
    (agent_dev.repo / ".agent-dev.yaml").write_bytes(b'# \x1b[2J\xff\nset: {A: "\\e[2J"}\n')
    printed = agent_dev("trust", "--show").stdout
    assert not [char for char in printed if char < " " and char != "\n"]


def test_without_the_file_nothing_is_written_or_printed(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "true").stderr == ""
    assert not (agent_dev.state / "trust").exists()
    assert "has no .agent-dev.yaml" in agent_dev("trust").stdout


def test_the_environment_file_of_a_repository_has_no_effect(agent_dev: AgentDev, tmp_path: Path) -> None:
    (agent_dev.repo / ".env").write_text(f"HOME={tmp_path}\nAGENT_DEV_HOME={tmp_path}/evil\nXDG_STATE_HOME={tmp_path}/evil\n")
    agent_dev("--", "touch", "new")
    assert not (tmp_path / "evil").exists()
    assert agent_dev.agent_home.is_dir()


@pytest.mark.parametrize("kind", ["running", "resumed"])
def test_a_resumed_run_trusts_no_more_than_a_new_one(agent_dev: AgentDev, kind: str) -> None:
    trusted(agent_dev, "set: {COLOUR: blue}\n")
    agent_dev("--", "touch", "new")
    write(agent_dev, "set: {COLOUR: red}\n")
    words = ("resume", "--") if kind == "resumed" else ("--",)
    done = agent_dev(*words, "sh", "-c", "echo $COLOUR")
    assert (done.stdout, "has changed since you trusted it" in done.stderr) == ("\n", True)


def test_trusting_does_not_modify_the_repository(agent_dev: AgentDev) -> None:
    write(agent_dev, WIDE)
    before = tree(agent_dev.repo)
    agent_dev("trust", "--yes")
    assert tree(agent_dev.repo) == before
