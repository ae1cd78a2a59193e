"""`agent-dev why`: what it says of paths, hosts and commands is what the sandbox really does."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import AgentDev
from tests.sandbox.sandbox.test_inside_shown import DEVICES

CONFIG = """\
ro: [~/data]
rw: [~/scratch]
mask: ["*.key"]
net: none
"""
STATES = {"writable": "exists writable", "visible": "exists", "not visible": "", "masked": "exists empty"}
LOOK = (
    'for p; do [ -e "$p" ] && printf exists; '
    'if [ -f "$p" ] && ! [ -s "$p" ]; then printf " empty"; elif [ -w "$p" ]; then printf " writable"; fi; echo; done'
)


@pytest.fixture
def config(agent_dev: AgentDev) -> Path:
    """Write settings, and files that they concern; return the path of config.yaml."""
    path = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG)
    for name in ("data/table", "data/.git-credentials", "scratch/note", ".ssh/config", "aihome/.profile"):
        (agent_dev.home / name).parent.mkdir(exist_ok=True)
        (agent_dev.home / name).write_text("text\n")
    (agent_dev.repo / "a.key").write_text("secret\n")
    (agent_dev.repo / "own file").write_text("text\n")
    return path


def why(agent_dev: AgentDev, *words: str) -> dict[str, Any]:
    """Return what `why` says."""
    done = agent_dev("why", "--json", *words)
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_its_answer_is_what_the_sandbox_shows(agent_dev: AgentDev, config: Path) -> None:
    home, repo = agent_dev.home, agent_dev.repo
    below_home = ("data/table", "data/.git-credentials", "scratch/note", ".ssh/config", ".profile")
    paths = [str(home / name) for name in below_home] + [str(repo / name) for name in ("a.key", "own file", ".git/HEAD")]
    paths += [
        "/etc/passwd",
        "/etc/shadow",
        "/etc/hostname",
        "/usr/bin/env",
        "/var/lib",
        "/run",
        "/proc/sys",
        "/tmp",
        "/",
        "/var",
        "/run/agent-dev",
        "/dev",
    ]
    paths += [f"/dev/{name}" for name in os.listdir("/dev") if name not in {*DEVICES, "console"}]
    found = agent_dev("--no-merge", "--", "sh", "-c", LOOK, "sh", *paths)
    printed = {path: STATES[why(agent_dev, path)["state"]] for path in paths}
    assert found.stdout.splitlines() == [printed[path] for path in paths], printed
    assert set(printed.values()) == set(STATES.values())


@pytest.mark.parametrize("name", ["/", "~", "~/aihome", "~/.local", "/dev/kvm", "/etc/shadow", "~/missing"])
def test_no_option_is_named_that_would_be_refused(agent_dev: AgentDev, config: Path, name: str) -> None:
    (agent_dev.home / ".local").mkdir(exist_ok=True)
    done = agent_dev("why", "--json", name, env={"XDG_STATE_HOME": str(agent_dev.home / ".local/state")})
    assert json.loads(done.stdout)["changes"] == []


def test_nothing_of_a_git_dir_is_applied(agent_dev: AgentDev) -> None:
    (agent_dev.repo / ".git/hooks").mkdir(exist_ok=True)
    for name in (".git/config", ".git/hooks/pre-commit"):
        data = why(agent_dev, name)
        assert (data["state"], data["text"].partition(":")[0]) == ("writable", "a private copy of the git directory")


def test_a_setting_is_named_with_its_file_and_line(agent_dev: AgentDev, config: Path) -> None:
    data = why(agent_dev, "~/data/table")
    assert data["origin"] == f"ro: ~/data ({config}:1)"
    assert data["changes"][0] == f"agent-dev --overlay {agent_dev.home}/data AGENT (reviewed)"
    assert why(agent_dev, "a.key")["origin"] == f"mask: *.key ({config}:3)"
    assert why(agent_dev, "example.org:443")["origin"] == f"net: none ({config}:4)"


def test_the_path_that_it_shows_makes_it_visible(agent_dev: AgentDev, config: Path) -> None:
    hidden = why(agent_dev, "~/.ssh/config")
    assert hidden["state"] == "not visible"
    words = hidden["changes"][0].removeprefix("agent-dev ").removesuffix(" AGENT").split()
    assert words == ["--ro", str(agent_dev.home / ".ssh/config")]
    done = agent_dev(*words, "why", "--json", "~/.ssh/config")
    assert json.loads(done.stdout)["state"] == "visible"


def test_it_proposes_no_option_that_a_run_refuses(agent_dev: AgentDev, config: Path) -> None:
    for path in (agent_dev.agent_home, agent_dev.state, agent_dev.home / "missing"):
        assert (why(agent_dev, str(path))["changes"], agent_dev("--ro", str(path), "--", "true").returncode) == ([], 125)


def test_hosts(agent_dev: AgentDev) -> None:
    assert why(agent_dev, "localhost:5432")["state"] == "reachable"
    none = json.loads(agent_dev("--net", "none", "why", "--json", "[::1]:80").stdout)
    assert (none["state"], none["origin"]) == ("not reachable", "net: none (--net)")
    assert "loopback interface of its own" in none["text"]


def test_a_denied_host_is_not_described_as_reached(agent_dev: AgentDev) -> None:
    for rule, text in (("gist.github.com", "all ports are denied"), ("gist.github.com:443", "port 443 is denied")):
        rules = ("--net", "allow", "--allow", "*.github.com", "--deny", rule)
        data = json.loads(agent_dev(*rules, "why", "--json", "gist.github.com").stdout)
        assert (data["state"], data["text"]) == ("not reachable", text)


def test_a_host_with_an_impossible_port_is_refused(agent_dev: AgentDev) -> None:
    done = agent_dev("why", "github.com:99999")
    assert (done.returncode, done.stdout) == (2, "")
    assert "github.com:99999: 99999 is not a port (1 to 65535)" in done.stderr


def test_commands(agent_dev: AgentDev) -> None:
    reset = why(agent_dev, "--", "git", "reset", "--hard")
    assert (reset["state"], reset["text"]) == ("checkpoint", "/usr/bin/git")
    assert reset["origin"].startswith("rule reset-hard (/")
    assert why(agent_dev, "sh")["state"] == "allow"
    assert why(agent_dev, "no-such-command")["state"] == "not found"
    assert why(agent_dev, "git reset --hard") == reset


def test_a_session_keeps_the_options_of_its_start(agent_dev: AgentDev, config: Path) -> None:
    extra = agent_dev.home / "extra"
    extra.mkdir()
    agent_dev(
        "--no-merge", "--name", "one", "--ro", str(extra), "--", "sh", "-c", "echo new > new.txt; rm README.md; ln -s /etc out"
    )
    assert why(agent_dev, str(extra))["state"] == "not visible"
    assert why(agent_dev, str(extra), "one")["origin"] == f"ro: {extra} (--ro)"
    made = why(agent_dev, "new.txt", "one")  # without the session, it could be a host
    assert (made["state"], made["text"].partition("; ")[2]) == ("writable", "this session has a version of its own")
    gone = why(agent_dev, "README.md", "one")
    assert (gone["state"], "version of its own" in gone["text"]) == ("writable", False)
    assert "version of its own" not in why(agent_dev, "out/passwd", "one")["text"]  # the agent's symlink is not followed


def test_the_text_has_the_state_the_origin_and_a_remedy(agent_dev: AgentDev, config: Path) -> None:
    lines = agent_dev("why", "~/data/table").stdout.splitlines()
    assert lines[0] == f"{agent_dev.home}/data/table: visible: read-only"
    assert lines[1] == f"because of  ro: ~/data ({config}:1)"
    assert lines[2].startswith("to change:  agent-dev --overlay ")


def test_an_agent_need_not_be_installed(agent_dev: AgentDev) -> None:
    assert why(agent_dev, "--agent", "claude", "/etc/passwd")["state"] == "visible"
    assert why(agent_dev, "--agent", "claude", "example.org")["state"] == "reachable"
    assert why(agent_dev, "--agent", "claude", "claude")["state"] == "not found"


@pytest.mark.parametrize("words", [(), ("--agent", "no-such-agent", "/etc"), ("/etc", "no-such-session")])
def test_mistakes_are_one_line(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    done = agent_dev("why", *words)
    assert done.returncode in {1, 2, 125}
    assert done.stdout == ""
    assert 1 <= len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr
