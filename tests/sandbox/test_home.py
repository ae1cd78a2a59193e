"""`agent-dev home`: what an agent left in its home, what of it runs by itself, and a fresh one."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import PYTHON, AgentDev, tree, wait_until
from tests.sandbox.waiting import end, run_long, waiting_agent


def run(agent_dev: AgentDev, script: str) -> None:
    """Run a script in a session that lasts long enough to be noted, and wait until it is."""
    run_long(agent_dev, script)
    assert agent_dev("home", "--diff").returncode == 0


def changes(agent_dev: AgentDev) -> dict[str, tuple[str, str | None]]:
    """Return path → sign and reason of `home --diff`."""
    done = agent_dev("home", "--diff", "--json")
    assert done.returncode == 0, done.stderr
    return {row["path"]: (row["sign"], row["why"]) for row in json.loads(done.stdout)["changes"]}


def test_what_the_last_session_changed_is_shown_and_what_the_one_before_did_is_not(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo one >~/.bashrc; echo one >~/note; echo one >~/gone")
    assert changes(agent_dev).keys() == {".bashrc", "note", "gone"}
    run(agent_dev, "echo two >>~/.bashrc; rm ~/gone; echo x >~/new; ln -s /etc/passwd ~/link")
    assert changes(agent_dev) == {
        ".bashrc": ("~", "a shell reads it at its start"),
        "gone": ("-", None),
        "link": ("+", None),
        "new": ("+", None),
    }
    said = agent_dev("home", "--diff").stdout
    assert "~ .bashrc   ! a shell reads it at its start\n     one\n    +two\n" in said
    run(agent_dev, "true")
    assert changes(agent_dev) == {}


def test_of_two_sessions_at_once_the_one_that_ends_last_hides_nothing_behind_the_other(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo one >~/note")
    with waiting_agent(agent_dev, "echo evil >~/.bashrc") as process:
        run(agent_dev, "echo two >~/other")
        end(process)
    assert changes(agent_dev).keys() == {".bashrc", "other"}


def test_a_change_is_seen_though_size_and_time_are_as_before(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo one >~/.profile; touch -d 2001-01-01 ~/.profile")
    run(agent_dev, "echo two >~/.profile; touch -d 2001-01-01 ~/.profile")
    assert changes(agent_dev) == {".profile": ("~", "a shell reads it at its start")}


RUNS = {
    ".zshenv": "a shell reads it at its start",
    ".config/git/config": "git takes settings, hooks and filters from it",
    ".claude/settings.json": "an agent takes hooks, servers or instructions from it",
    ".codex/config.toml": "an agent takes hooks, servers or instructions from it",
    ".vimrc": "an editor reads or runs it",
    ".npmrc": "a package manager or build tool takes settings from it",
    ".gdbinit": "a program or debugger reads it at its start",
    ".config/systemd/user/x.service": "a desktop or service manager starts it",
    ".local/lib/python3.11/site-packages/x.pth": "a program or debugger reads it at its start",
    ".local/agent/bin/git": "hides the system's git",
    ".local/bin/mytool": "a program that PATH finds",
    ".asdf/shims/mytool": "a program that PATH finds",  # a place that is in PATH when it is there
}


def test_what_runs_by_itself_is_named_with_its_reason(agent_dev: AgentDev) -> None:
    script = 'for path; do mkdir -p "$(dirname ~/"$path")"; echo x >~/"$path"; chmod +x ~/"$path"; done; echo x >~/note'
    agent_dev("--", "sh", "-euc", script, "sh", *RUNS)
    found = json.loads(agent_dev("home", "--json").stdout)
    assert {row["path"]: row["why"] for row in found["runs"]} == RUNS
    assert found["files"] == len(RUNS) + 1
    assert "  .local/agent/bin/git: hides the system's git\n" in agent_dev("home").stdout


def test_hostile_names_and_contents_are_shown_harmlessly(agent_dev: AgentDev) -> None:
    code = "import os; os.mkdir('.vim'); open(b'.vim/\\x1b[2J\\n\\xff', 'w').write('x')"
    code += "; open('.bashrc', 'wb').write(b'\\x1b]52;c;x\\x07\\xff')"
    run(agent_dev, f'cd; {PYTHON} -I -c "{code}"; mkfifo .profile')
    said = agent_dev("home", "--diff").stdout + agent_dev("home").stdout
    assert ".vim/\u241b[2J\u240a\\xff" in said
    assert not [char for char in said if char < " " and char != "\n"]
    assert json.loads(agent_dev("home", "--diff", "--json").stdout)["known"]


def test_an_agent_that_links_its_files_outside_shows_nothing_of_there(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/config").write_text("canary")
    links = (".bashrc", "config"), (".vim", ""), (".config/git", "")
    run(agent_dev, "mkdir ~/.config; " + "; ".join(f"ln -s {tmp_path}/secret/{name} ~/{link}" for link, name in links))
    assert "canary" not in agent_dev("home", "--diff").stdout
    assert changes(agent_dev).keys() == {".bashrc", ".vim", ".config/git"}


def test_nothing_of_the_home_is_executed_by_looking(agent_dev: AgentDev, tmp_path: Path) -> None:
    script = "mkdir -p ~/.local/agent/bin ~/.local/bin; for name in git python3 sh bwrap; do"
    script += f" printf '#!/bin/sh\\ntouch {tmp_path}/ran\\n' >~/.local/bin/$name; chmod +x ~/.local/bin/$name; done"
    run(agent_dev, script)
    path = f"{agent_dev.agent_home}/.local/bin:{agent_dev.env['PATH']}"
    for words in (("home",), ("home", "--diff"), ("--", "true"), ("home", "--reset", "--keep-login")):
        assert agent_dev(*words, env={"PATH": path}).returncode == 0
    assert not (tmp_path / "ran").exists()


def test_an_index_that_is_broken_is_not_believed(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo x >~/one")
    run(agent_dev, "echo x >~/two")
    assert changes(agent_dev).keys() == {"two"}
    index = next((agent_dev.state / "homes").glob("*.before"))
    index.write_text("{torn")
    done = agent_dev("home", "--diff")
    assert "not known what it held before" in done.stdout
    assert changes(agent_dev).keys() == {"one", "two"}


# A fresh one


LOGIN = {"oauthAccount": {"id": 1}, "hasCompletedOnboarding": True}


def logged_in(agent_dev: AgentDev) -> None:
    """Leave logins and worse things in the agent home."""
    for name in (".claude", ".codex", ".config"):
        (agent_dev.agent_home / name).mkdir(parents=True)
    (agent_dev.agent_home / ".claude/.credentials.json").write_text("token")
    (agent_dev.agent_home / ".claude/settings.json").write_text('{"hooks": {}}')
    (agent_dev.agent_home / ".claude.json").write_text(json.dumps({**LOGIN, "mcpServers": {"x": {"command": "evil"}}}))
    (agent_dev.agent_home / ".codex/auth.json").symlink_to(agent_dev.home / ".ssh/id_ed25519")
    (agent_dev.agent_home / ".bashrc").write_text("evil")


def trashed(agent_dev: AgentDev) -> list[Path]:
    return sorted((agent_dev.state / "trash").glob("home-*"))


def test_a_reset_moves_the_home_to_the_trash_and_the_next_run_starts_afresh(agent_dev: AgentDev) -> None:
    logged_in(agent_dev)
    before = tree(agent_dev.agent_home)
    done = agent_dev("home", "--reset")
    assert done.returncode == 0, done.stderr
    assert not agent_dev.agent_home.exists()
    assert [tree(place) for place in trashed(agent_dev)] == [before]
    assert agent_dev("--", "sh", "-c", "ls -A ~ | grep -v src").stdout == ""


def test_logins_are_kept_and_nothing_that_runs(agent_dev: AgentDev) -> None:
    logged_in(agent_dev)
    done = json.loads(agent_dev("home", "--reset", "--keep-login", "--json").stdout)
    assert done["kept"] == [".claude/.credentials.json", ".claude.json"]
    assert tree(agent_dev.agent_home).keys() == {".", ".claude", ".claude/.credentials.json", ".claude.json"}
    assert json.loads((agent_dev.agent_home / ".claude.json").read_text()) == LOGIN
    assert (agent_dev.agent_home / ".claude.json").stat().st_mode & 0o777 == 0o600
    assert json.loads(agent_dev("home", "--json").stdout)["runs"][0]["path"] == ".claude.json"


def test_a_home_that_is_in_use_is_not_reset(agent_dev: AgentDev) -> None:
    with agent_dev.started("--", "sh", "-c", "echo ready; read line; echo x >~/kept") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        done = agent_dev("home", "--reset")
        assert (done.returncode, "a session is using the agent home" in done.stderr) == (1, True)
        process.communicate("\n", timeout=60)
    assert (agent_dev.agent_home / "kept").exists()


def test_without_a_home_there_is_nothing_to_look_at_or_reset(agent_dev: AgentDev) -> None:
    for words in (("home",), ("home", "--diff"), ("home", "--reset")):
        assert agent_dev(*words).returncode == 0
    assert not agent_dev.agent_home.exists()


@pytest.mark.parametrize("words", [("--keep-login",), ("--diff", "--reset")])
def test_words_that_do_not_go_together_are_refused(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    assert agent_dev("home", *words).returncode == 2


def test_a_home_that_holds_the_users_own_is_not_moved(agent_dev: AgentDev) -> None:
    before = tree(agent_dev.home)
    done = agent_dev("--home", agent_dev.home, "home", "--reset")
    assert done.returncode == 1
    assert "holds more than an agent home does" in done.stderr
    assert tree(agent_dev.home) == before


def test_what_is_in_the_trash_is_not_taken_for_a_session(agent_dev: AgentDev) -> None:
    logged_in(agent_dev)
    agent_dev("home", "--reset")
    assert agent_dev.sessions(everywhere=True) == []
    assert agent_dev("--", "touch", "new").returncode == 0
    assert agent_dev("discard").returncode == 0


# A home for each


def configured(agent_dev: AgentDev, home: str) -> None:
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"home: {home}\n")


def test_each_profile_can_have_a_home_of_its_own(agent_dev: AgentDev) -> None:
    configured(agent_dev, "~/agents/{profile}")
    agent_dev("--", "sh", "-c", "echo x >~/mine")
    agent_dev("bash", "-c", "echo x >~/mine")
    assert sorted(os.listdir(agent_dev.home / "agents")) == ["bash", "default"]
    assert json.loads(agent_dev("home", "bash", "--json").stdout)["home"].endswith("/agents/bash")


def test_each_project_can_have_a_home_of_its_own(agent_dev: AgentDev) -> None:
    configured(agent_dev, "~/agents/{project}")
    other = agent_dev.home / "src/else"
    other.mkdir()
    agent_dev("--", "sh", "-c", "echo x >~/secret")
    assert agent_dev("--", "sh", "-c", "cat ~/secret; ls -d /home/*/agents", cwd=other).stdout == ""
    names = sorted(os.listdir(agent_dev.home / "agents"))
    assert [name.rpartition("-")[0] for name in names] == ["else", "shop"]


def test_no_program_is_taken_from_another_projects_home(agent_dev: AgentDev, tmp_path: Path) -> None:
    configured(agent_dev, "~/agents/{project}")
    folder = agent_dev.home / "agents/other/bin"
    folder.mkdir(parents=True)
    (folder / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (folder / "git").chmod(0o755)
    agent_dev("--", "true", env={"PATH": f"{folder}:{agent_dev.env['PATH']}"})
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", ["~/x/{user}", "~/{profile}", "/{project}/x", "~/a/}"])
def test_other_braces_are_refused_with_their_line(agent_dev: AgentDev, place: str) -> None:
    configured(agent_dev, f'"{place}"')
    done = agent_dev("--", "true")
    assert done.returncode == 125
    assert "config.yaml:1: home: " in done.stderr


def test_a_run_that_lasts_leaves_an_index(agent_dev: AgentDev) -> None:
    run(agent_dev, "true")
    wait_until(lambda: list((agent_dev.state / "homes").glob("*.last")), "the index")


def test_an_index_left_by_a_home_of_the_same_number_is_not_used(agent_dev: AgentDev) -> None:
    run(agent_dev, "echo x >~/one")
    agent_dev("home", "--diff")
    agent_dev("home", "--reset")
    assert not list((agent_dev.state / "homes").glob("*.last"))


def test_looking_at_a_home_does_not_wait_for_input(agent_dev: AgentDev) -> None:
    run(agent_dev, "mkfifo ~/.bashrc ~/.gitconfig")
    found: dict[str, Any] = json.loads(agent_dev("home", "--json").stdout)
    assert {row["path"] for row in found["runs"]} == {".bashrc", ".gitconfig"}


def test_a_home_of_no_profile_is_said_to_be_that_of_all_commands(agent_dev: AgentDev) -> None:
    done = agent_dev("home", "claud")
    said = "no profile claud (did you mean claude?): this is the home of commands that have none"
    assert (done.returncode, done.stderr) == (0, f"agent-dev: {said}\n")
    assert agent_dev("home", "claude").stderr == agent_dev("home").stderr == ""
