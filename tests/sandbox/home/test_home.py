"""`agent-dev home`: list what an agent changed in its home and what runs automatically there; reset the home."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import PYTHON, AgentDev, tree, wait_until
from tests.sandbox.waiting import end, run_long, waiting_agent


def run(agent_dev: AgentDev, script: str) -> None:
    """Run a script in a session that is long enough for an index of the home, and wait until the index is written."""
    run_long(agent_dev, script)
    assert agent_dev("home", "--diff").returncode == 0


def changes(agent_dev: AgentDev) -> dict[str, tuple[str, str | None]]:
    """Return path → sign and reason, from `home --diff`."""
    done = agent_dev("home", "--diff", "--json")
    assert done.returncode == 0, done.stderr
    return {row["path"]: (row["sign"], row["reason"]) for row in json.loads(done.stdout)["changes"]}


def test_only_the_changes_of_the_last_session_are_shown(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo one >~/.bashrc; echo one >~/note; echo one >~/gone")
    assert changes(agent_dev).keys() == {".bashrc", "note", "gone"}
    run(agent_dev, "echo two >>~/.bashrc; rm ~/gone; echo x >~/new; ln -s /etc/passwd ~/link")
    assert changes(agent_dev) == {
        ".bashrc": ("~", "read by a shell at startup"),
        "gone": ("-", None),
        "link": ("+", None),
        "new": ("+", None),
    }
    printed = agent_dev("home", "--diff").stdout
    assert "~ .bashrc   ! read by a shell at startup\n     one\n    +two\n" in printed
    run(agent_dev, "true")
    assert changes(agent_dev) == {}


def test_the_later_of_two_concurrent_sessions_hides_no_change_of_the_other(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo one >~/note")
    with waiting_agent(agent_dev, "echo evil >~/.bashrc") as process:
        run(agent_dev, "echo two >~/other")
        end(process)
    assert changes(agent_dev).keys() == {".bashrc", "other"}


def test_a_change_with_the_same_size_and_time_is_seen(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo one >~/.profile; touch -d 2001-01-01 ~/.profile")
    run(agent_dev, "echo two >~/.profile; touch -d 2001-01-01 ~/.profile")
    assert changes(agent_dev) == {".profile": ("~", "read by a shell at startup")}


RUNS = {
    ".zshenv": "read by a shell at startup",
    ".config/git/config": "git settings, hooks or filters",
    ".claude/settings.json": "settings, hooks, servers or instructions of an agent",
    ".codex/config.toml": "settings, hooks, servers or instructions of an agent",
    ".vimrc": "read or run by an editor",
    ".npmrc": "settings of a package manager or build tool",
    ".gdbinit": "read by a program or debugger at startup",
    ".config/systemd/user/x.service": "started by a desktop or service manager",
    ".local/lib/python3.11/site-packages/x.pth": "read by a program or debugger at startup",
    ".local/agent/bin/git": "shadows the system's git",
    ".local/bin/mytool": "a program in PATH",
    ".asdf/shims/mytool": "a program in PATH",  # in PATH if the directory exists at the start
}


def test_files_that_run_by_themselves_are_named_with_the_reason(agent_dev: AgentDev) -> None:
    script = 'for path; do mkdir -p "$(dirname ~/"$path")"; echo x >~/"$path"; chmod +x ~/"$path"; done; echo x >~/note'
    agent_dev("--", "sh", "-euc", script, "sh", *RUNS)
    found = json.loads(agent_dev("home", "--json").stdout)
    assert {row["path"]: row["reason"] for row in found["autostart"]} == RUNS
    assert found["files"] == len(RUNS) + 1
    assert "  .local/agent/bin/git: shadows the system's git\n" in agent_dev("home").stdout


def test_hostile_names_and_contents_are_escaped(agent_dev: AgentDev) -> None:
    code = "import os; os.mkdir('.vim'); open(b'.vim/\\x1b[2J\\n\\xff', 'w').write('x')"
    code += "; open('.bashrc', 'wb').write(b'\\x1b]52;c;x\\x07\\xff')"
    run(agent_dev, f'cd; {PYTHON} -I -c "{code}"; mkfifo .profile')
    printed = agent_dev("home", "--diff").stdout + agent_dev("home").stdout
    assert ".vim/\u241b[2J\u240a\\xff" in printed
    assert not [char for char in printed if char < " " and char != "\n"]
    assert json.loads(agent_dev("home", "--diff", "--json").stdout)["known"]


def test_symlinks_out_of_the_home_reveal_nothing(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/config").write_text("canary")
    links = (".bashrc", "config"), (".vim", ""), (".config/git", "")
    run(agent_dev, "mkdir ~/.config; " + "; ".join(f"ln -s {tmp_path}/secret/{name} ~/{link}" for link, name in links))
    assert "canary" not in agent_dev("home", "--diff").stdout
    assert changes(agent_dev).keys() == {".bashrc", ".vim", ".config/git"}


def test_inspecting_the_home_executes_nothing(agent_dev: AgentDev, tmp_path: Path) -> None:
    script = "mkdir -p ~/.local/agent/bin ~/.local/bin; for name in git python3 sh bwrap; do"
    script += f" printf '#!/bin/sh\\ntouch {tmp_path}/ran\\n' >~/.local/bin/$name; chmod +x ~/.local/bin/$name; done"
    run(agent_dev, script)
    path = f"{agent_dev.agent_home}/.local/bin:{agent_dev.env['PATH']}"
    for words in (("home",), ("home", "--diff"), ("--", "true"), ("home", "--reset", "--keep-login")):
        assert agent_dev(*words, env={"PATH": path}).returncode == 0
    assert not (tmp_path / "ran").exists()


def test_a_damaged_index_is_not_trusted(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo x >~/one")
    run(agent_dev, "echo x >~/two")
    assert changes(agent_dev).keys() == {"two"}
    index = next((agent_dev.state / "homes").glob("*.before"))
    index.write_text("{torn")
    done = agent_dev("home", "--diff")
    assert "no index of the previous state" in done.stdout
    assert changes(agent_dev).keys() == {"one", "two"}


# Resets


LOGIN = {"oauthAccount": {"id": 1}, "hasCompletedOnboarding": True}


def logged_in(agent_dev: AgentDev) -> None:
    """Put logins, planted files and a symlink into the agent home."""
    for name in (".claude", ".codex", ".config"):
        (agent_dev.agent_home / name).mkdir(parents=True)
    (agent_dev.agent_home / ".claude/.credentials.json").write_text("token")
    (agent_dev.agent_home / ".claude/settings.json").write_text('{"hooks": {}}')
    (agent_dev.agent_home / ".claude.json").write_text(json.dumps({**LOGIN, "mcpServers": {"x": {"command": "evil"}}}))
    (agent_dev.agent_home / ".codex/auth.json").symlink_to(agent_dev.home / ".ssh/id_ed25519")
    (agent_dev.agent_home / ".bashrc").write_text("evil")


def trashed(agent_dev: AgentDev) -> list[Path]:
    return sorted((agent_dev.state / "trash").glob("home-*"))


def test_a_reset_moves_the_home_to_the_trash_and_the_next_run_creates_one(agent_dev: AgentDev) -> None:
    logged_in(agent_dev)
    before = tree(agent_dev.agent_home)
    done = agent_dev("home", "--reset")
    assert done.returncode == 0, done.stderr
    assert not agent_dev.agent_home.exists()
    assert [tree(place) for place in trashed(agent_dev)] == [before]
    assert agent_dev("--", "sh", "-c", "ls -A ~ | grep -v src").stdout == ""


def test_a_reset_keeps_logins_and_nothing_executable(agent_dev: AgentDev) -> None:
    logged_in(agent_dev)
    done = json.loads(agent_dev("home", "--reset", "--keep-login", "--json").stdout)
    assert done["kept"] == [".claude/.credentials.json", ".claude.json"]
    assert tree(agent_dev.agent_home).keys() == {".", ".claude", ".claude/.credentials.json", ".claude.json"}
    assert json.loads((agent_dev.agent_home / ".claude.json").read_text()) == LOGIN
    assert (agent_dev.agent_home / ".claude.json").stat().st_mode & 0o777 == 0o600
    assert json.loads(agent_dev("home", "--json").stdout)["autostart"][0]["path"] == ".claude.json"


def test_a_reset_keeps_the_files_of_a_directory_with_logins(agent_dev: AgentDev) -> None:
    folder = agent_dev.agent_home / ".kimi-code/credentials"
    folder.mkdir(parents=True)
    (folder / "kimi.json").write_text("token")
    (folder / "link.json").symlink_to(agent_dev.home / ".ssh/id_ed25519")
    (folder / "more").mkdir()
    done = json.loads(agent_dev("home", "--reset", "--keep-login", "--json").stdout)
    assert done["kept"] == [".kimi-code/credentials/kimi.json"]
    assert tree(agent_dev.agent_home).keys() == {".", ".kimi-code", ".kimi-code/credentials", ".kimi-code/credentials/kimi.json"}


@pytest.mark.slow
def test_a_home_in_use_is_not_reset(agent_dev: AgentDev) -> None:
    with agent_dev.start("--", "sh", "-c", "echo ready; read line; echo x >~/kept") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        done = agent_dev("home", "--reset")
        assert (done.returncode, "is in use by a session" in done.stderr) == (1, True)
        process.communicate("\n", timeout=60)
    assert (agent_dev.agent_home / "kept").exists()


def test_without_a_home_there_is_nothing_to_inspect_or_reset(agent_dev: AgentDev) -> None:
    for words in (("home",), ("home", "--diff"), ("home", "--reset")):
        assert agent_dev(*words).returncode == 0
    assert not agent_dev.agent_home.exists()


@pytest.mark.parametrize("words", [(), ("--diff",), ("--reset",)])
def test_a_home_that_is_not_a_directory_is_refused(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    agent_dev.agent_home.touch()
    done = agent_dev("home", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the agent home {agent_dev.agent_home} is not a directory" in done.stderr


@pytest.mark.parametrize("words", [("--keep-login",), ("--diff", "--reset")])
def test_conflicting_arguments_are_refused(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    assert agent_dev("home", *words).returncode == 2


def test_a_home_with_files_of_the_user_is_not_moved(agent_dev: AgentDev) -> None:
    before = tree(agent_dev.home)
    done = agent_dev("--home", agent_dev.home, "home", "--reset")
    assert done.returncode == 1
    assert "contains more than an agent home" in done.stderr
    assert tree(agent_dev.home) == before


def test_entries_of_the_trash_are_not_listed_as_sessions(agent_dev: AgentDev) -> None:
    logged_in(agent_dev)
    agent_dev("home", "--reset")
    assert agent_dev.sessions(everywhere=True) == []
    assert agent_dev("--", "touch", "new").returncode == 0
    assert agent_dev("discard").returncode == 0


# Homes per profile or project


def configured(agent_dev: AgentDev, home: str) -> None:
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"home: {home}\n")


def test_each_profile_can_have_its_own_home(agent_dev: AgentDev) -> None:
    configured(agent_dev, "~/agents/{profile}")
    agent_dev("--", "sh", "-c", "echo x >~/mine")
    agent_dev("bash", "-c", "echo x >~/mine")
    assert sorted(os.listdir(agent_dev.home / "agents")) == ["bash", "default"]
    assert json.loads(agent_dev("home", "bash", "--json").stdout)["home"].endswith("/agents/bash")


def test_each_project_can_have_its_own_home(agent_dev: AgentDev) -> None:
    configured(agent_dev, "~/agents/{project}")
    other = agent_dev.home / "src/else"
    other.mkdir()
    agent_dev("--", "sh", "-c", "echo x >~/secret")
    assert agent_dev("--", "sh", "-c", "cat ~/secret; ls -d /home/*/agents", cwd=other).stdout == ""
    names = sorted(os.listdir(agent_dev.home / "agents"))
    assert [name.rpartition("-")[0] for name in names] == ["else", "shop"]


def test_no_program_is_run_from_another_projects_home(agent_dev: AgentDev, tmp_path: Path) -> None:
    configured(agent_dev, "~/agents/{project}")
    folder = agent_dev.home / "agents/other/bin"
    folder.mkdir(parents=True)
    (folder / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (folder / "git").chmod(0o755)
    agent_dev("--", "true", env={"PATH": f"{folder}:{agent_dev.env['PATH']}"})
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", ["~/x/{user}", "~/{profile}", "/{project}/x", "~/a/}"])
def test_unknown_placeholders_are_refused_with_their_line(agent_dev: AgentDev, place: str) -> None:
    configured(agent_dev, f'"{place}"')
    done = agent_dev("--", "true")
    assert done.returncode == 125
    assert "config.yaml:1: home: " in done.stderr


def test_a_long_run_leaves_an_index(agent_dev: AgentDev) -> None:
    run(agent_dev, "true")
    wait_until(lambda: list((agent_dev.state / "homes").glob("*.last")), "the index")


def test_an_index_of_a_former_home_with_the_same_inode_is_not_used(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo x >~/one")
    agent_dev("home", "--diff")
    agent_dev("home", "--reset")
    assert not list((agent_dev.state / "homes").glob("*.last"))


def test_inspecting_a_home_does_not_wait_for_input(agent_dev: AgentDev) -> None:
    run(agent_dev, "mkfifo ~/.bashrc ~/.gitconfig")
    found: dict[str, Any] = json.loads(agent_dev("home", "--json").stdout)
    assert {row["path"] for row in found["autostart"]} == {".bashrc", ".gitconfig"}


def test_a_home_without_a_profile_is_labelled_as_that_of_all_commands(agent_dev: AgentDev) -> None:
    done = agent_dev("home", "claud")
    printed = "no profile claud (did you mean claude?); showing the home of commands without a profile"
    assert (done.returncode, done.stderr) == (0, f"agent-dev: {printed}\n")
    assert agent_dev("home", "claude").stderr == agent_dev("home").stderr == ""


def test_an_unknown_profile_is_not_reset(agent_dev: AgentDev) -> None:
    logged_in(agent_dev)
    before = tree(agent_dev.agent_home)
    done = agent_dev("home", "claud", "--reset")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no profile claud (did you mean claude?); nothing was reset" in done.stderr
    assert tree(agent_dev.agent_home) == before


def test_an_interrupted_reset_leaves_a_home_with_its_logins(agent_dev: AgentDev) -> None:
    logged_in(agent_dev)
    before = tree(agent_dev.agent_home)
    fresh = agent_dev.agent_home.with_name(f"{agent_dev.agent_home.name}.agent-dev-fresh")
    agent_dev.agent_home.rename(fresh)  # the state between the exchange and the move to the trash
    agent_dev.agent_home.mkdir(0o700)
    (agent_dev.agent_home / ".claude.json").write_text(json.dumps(LOGIN))
    done = agent_dev("home", "--reset", "--keep-login", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads((agent_dev.agent_home / ".claude.json").read_text()) == LOGIN
    assert not fresh.exists()
    assert before in [tree(place) for place in trashed(agent_dev)]
