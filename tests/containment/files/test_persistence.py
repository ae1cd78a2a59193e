"""CONTAINMENT D: files that an agent leaves in its home, the repository and the state are neither run nor read as settings."""

import json
import re
from pathlib import Path

from tests.containment.rows import row
from tests.harness.program import AgentDev, tree

HOSTILE = """
mkdir -p ~/.local/bin ~/.local/agent/bin ~/.config/git ~/.claude ~/.config/agent-dev/profiles ~/bin
for name in git bwrap python3 sh less vi; do
    for folder in ~/.local/bin ~/.local/agent/bin ~/bin .; do
        printf '#!/bin/sh\\ntouch "{marker}"\\n' >$folder/$name; chmod +x $folder/$name
    done
done
printf 'touch "{marker}"\\n' | tee ~/.bashrc ~/.profile ~/.bash_profile ~/.zshenv >/dev/null
printf '[core]\\n\\thooksPath = /tmp\\n\\tfsmonitor = touch {marker}\\n\\tpager = touch {marker}\\n' >~/.gitconfig
printf 'net: none\\nset: {{BELIEVED: home}}\\n' | tee ~/.config/agent-dev/config.yaml >.agent-dev.yaml
printf 'import os; open("{marker}", "w")\\n' | tee sitecustomize.py agent_dev.py yaml.py >/dev/null
git config core.fsmonitor 'touch "{marker}"'; git config alias.status '!touch "{marker}"'
"""


def leave(agent_dev: AgentDev, marker: Path) -> None:
    """Have an agent plant programs and settings in its home and in the repository."""
    done = agent_dev("--", "sh", "-euc", HOSTILE.format(marker=marker))
    assert done.returncode == 0, done.stderr


def traced(agent_dev: AgentDev, trace: Path, *words: str, env: dict[str, str]) -> str:
    """Run agent-dev under strace; return its exec and open system calls."""
    strace = ("strace", "-f", "-y", "-s", "4096", "-e", "trace=execve,execveat,openat,openat2", "-o", str(trace))
    done = agent_dev(*words, env=env, before=strace, timeout=120)
    assert done.returncode == 0, done.stderr
    return trace.read_text(errors="surrogateescape")


OPENED = re.compile(r"open(?:at|at2)\(.*?([A-Z_|]*O_[A-Z_|]+).*= \d+<([^>]*)>")


@row(
    "leave shell start-up files, git settings, agent hooks and programs in the agent home",
    "the launcher runs nothing from it and reads no settings; `agent-dev home --diff` lists what runs automatically",
)
def test_d16_the_launcher_uses_nothing_of_the_agent_home(agent_dev: AgentDev, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    leave(agent_dev, marker)
    home = str(agent_dev.agent_home)
    env = {"PATH": f"{home}/.local/bin:{home}/bin:{agent_dev.env['PATH']}"}
    for argv in (("--", "true"), ("status",), ("merge", "--dry-run", "--all"), ("sessions",)):
        calls = traced(agent_dev, tmp_path / "trace", *argv, env=env)
        assert [line for line in calls.splitlines() if re.search(rf'exec\w+\([^"]*"{re.escape(home)}', line)] == []
        opened = [(found[1], found[2]) for found in map(OPENED.search, calls.splitlines()) if found]
        assert len(opened) > 20
        files = [
            flags for flags, path in opened if path.startswith(home) and "O_PATH" not in flags and "O_DIRECTORY" not in flags
        ]
        assert [
            flags for flags in files if "O_NOFOLLOW" not in flags or "O_NONBLOCK" not in flags
        ] == []  # only the index of the home opens files there
    assert not marker.exists()
    runs = {change["path"]: change["reason"] for change in json.loads(agent_dev("home", "--json").stdout)["autostart"]}
    assert runs[".bashrc"] == "read by a shell at startup"
    assert runs[".local/bin/git"] == "shadows the system's git"


@row(
    "put programs with well-known names in directories of PATH: the repository, the agent home",
    "programs of the host are run by absolute paths, never from a directory that an agent can write",
)
def test_d18_no_program_of_the_agent_shadows_one_of_the_host(agent_dev: AgentDev, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    leave(agent_dev, marker)
    agent_dev("merge", "--all", "--include-risky")
    assert (agent_dev.repo / "git").exists()
    places = f"{agent_dev.repo}:{agent_dev.agent_home}/.local/bin:.::{agent_dev.agent_home}/bin:{agent_dev.env['PATH']}"
    env = {"PATH": places, "PAGER": "less", "EDITOR": "vi"}
    for argv in (("--", "true"), ("--", "touch", "new"), ("status",), ("diff",), ("merge", "--all"), ("undo",), ("doctor",)):
        agent_dev(*argv, env=env, timeout=120)
        assert not marker.exists(), argv


@row(
    "create a configuration file that did not exist when the session started",
    "it is a change for review, marked as risky, and not in the real tree",
)
def test_d01_a_new_settings_file_is_a_pending_change(agent_dev: AgentDev) -> None:
    before = tree(agent_dev.repo)
    agent_dev("--", "sh", "-c", "mkdir .claude .vscode; echo {} | tee .claude/settings.json >.vscode/tasks.json")
    assert tree(agent_dev.repo) == before
    risks = {change["path"]: bool(change["risks"]) for change in agent_dev.status()["changes"]}
    assert risks[".claude/settings.json"]
    assert risks[".vscode/tasks.json"]


@row(
    "find or change sessions, checkpoints and journals", "the state directory does not exist inside, and is unchanged afterwards"
)
def test_d15_the_state_of_agent_dev_does_not_exist(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "first")

    def kept() -> list[dict[str, str]]:
        return [tree(agent_dev.state / name) for name in ("sessions", "merges") if (agent_dev.state / name).exists()]

    before = kept()
    script = f'ls -d "{agent_dev.state}" "$(dirname "{agent_dev.state}")" 2>/dev/null; mkdir -p "{agent_dev.state}/sessions/x"'
    assert agent_dev("--", "sh", "-c", script).stdout == ""
    assert kept() == before


@row(
    "write `.agent-dev.yaml`, to grant the next sandbox more",
    "it is read from the real tree, only if the user trusted exactly this version; after a change, only its restrictions apply",
)
def test_d20_untrusted_repository_settings_grant_nothing(agent_dev: AgentDev, tmp_path: Path) -> None:
    (agent_dev.repo / ".agent-dev.yaml").write_text("net: none\n")
    agent_dev("trust", "--yes")
    agent_dev("--", "sh", "-c", f"echo 'rw: [{tmp_path}]' >.agent-dev.yaml")
    agent_dev("merge", "--take", ".agent-dev.yaml")
    done = agent_dev("--", "touch", tmp_path / "escaped")
    assert "has changed since you trusted it" in done.stderr
    assert not (tmp_path / "escaped").exists()
    assert "--unshare-net" in agent_dev("show", "--all", "--", "true").stdout


@row(
    "change agent-dev's directories with a `.env` in the repository",
    "no file of a repository is read into the launcher's environment",
)
def test_d21_an_environment_file_of_the_repository_changes_no_path(agent_dev: AgentDev, tmp_path: Path) -> None:
    names = (
        "HOME",
        "AGENT_DEV_HOME",
        "AGENT_DEV_STATE",
        "AGENT_DEV_BWRAP",
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
    )
    (agent_dev.repo / ".env").write_text("".join(f"{name}={tmp_path}/evil\n" for name in names))
    (agent_dev.repo / ".envrc").write_text((agent_dev.repo / ".env").read_text())
    assert agent_dev("--", "touch", "new").returncode == 0
    assert not (tmp_path / "evil").exists()
    assert agent_dev.sessions()


@row(
    "replace the working directory of a session with a symlink, and have the session resumed",
    "the boundary is the path that the launcher resolved in the real tree; a symlink is resolved inside",
)
def test_d22_a_session_cannot_move_its_boundary(agent_dev: AgentDev, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    below = agent_dev.repo / "sub/deep"
    agent_dev("--", "sh", "-c", f"cd ..; rm -r deep; ln -s {outside} deep; echo x >new", cwd=below)
    agent_dev("resume", "--", "sh", "-c", f"touch {outside}/escaped {below}/escaped")
    assert list(outside.iterdir()) == []
    assert agent_dev.status(cwd=below)["root"] == str(agent_dev.repo)
