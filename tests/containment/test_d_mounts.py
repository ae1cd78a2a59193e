"""CONTAINMENT D: what is mounted, the environment, what stays between sessions."""

import sys
from pathlib import Path
from typing import Any

import pytest

from agent_dev.config import load
from agent_dev.sandbox import credentials
from tests.containment.rows import RESIDUAL, row
from tests.containment.world import World
from tests.harness.program import AgentDev, tree, wait_until

CANARY = "canary-of-containment"
SECRETS = [
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "ANTHROPIC_API_KEY",
    "SSH_AUTH_SOCK",
    "KUBECONFIG",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "NODE_OPTIONS",
    "GIT_DIR",
    "BASH_ENV",
    "XDG_RUNTIME_DIR",
]
FILES = [f"{path}secret" if path.endswith("/") else path for path in credentials.ALL]  # of tools, below the home


@pytest.fixture(scope="module")
def secrets(shared: World) -> list[str]:
    """Files of the host that hold a canary: elsewhere, in other repositories, in the state directory, with credentials."""
    below_home = [".ssh/id_ed25519", "src/other/secret", ".bash_history", *FILES]
    places = [shared.home / name for name in below_home]
    places += [shared.folder / "srv/secret", shared.program.state / "sessions/other/secret", shared.folder / "config/secret"]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(CANARY)
    return list(dict.fromkeys(map(str, places)))


@pytest.fixture(scope="module")
def found(shared: World, net: str, secrets: list[str]) -> dict[str, Any]:
    """What came of everything that is tried here, with each network."""
    (shared.repo / ".env").write_text(f"HOME=/tmp/elsewhere\nTOKEN={CANARY}\n")
    places = ["/", "/etc", "/usr", "/usr/bin", "/var", "/proc/sys/kernel", "/home", str(shared.folder)]
    target: dict[str, Any] = {"sections": ["mounts"], "places": places, "secrets": [*secrets, str(shared.repo / ".env")]}
    return shared.tried(target, "--net", net, env=dict.fromkeys(SECRETS, f"/{CANARY}"))


@row("make a configuration file that was not there before", "it is a change that waits, and is marked")
def test_d01_a_new_configuration_file_waits_and_is_marked(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "mkdir -p .claude .vscode; echo '{}' >.claude/settings.json; echo '{}' >.vscode/tasks.json")
    assert not (agent_dev.repo / ".claude").exists()
    done = agent_dev("merge", "--all")
    assert done.returncode == 0
    assert not (agent_dev.repo / ".claude/settings.json").exists()
    assert not (agent_dev.repo / ".vscode/tasks.json").exists()


@row("put a link where something will be protected or mounted", "mount points are made descriptor by descriptor: refused")
def test_d03_a_link_in_the_way_of_a_mount_is_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    agent_dev.agent_home.mkdir()
    (agent_dev.agent_home / "src").symlink_to(outside)
    before = tree(outside)
    done = agent_dev("--", "true")
    assert done.returncode == 125
    assert "agent-dev: " in done.stderr
    assert tree(outside) == before


@row("swap what is mounted for a link between the look and the mount", "opened without following, then mounted by descriptor")
def test_d06_an_entry_of_the_agent_home_that_became_a_link_leads_nowhere(agent_dev: AgentDev, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (agent_dev.home / ".local/bin").mkdir(parents=True)
    (agent_dev.home / ".local/bin/tool").write_text("#!/bin/sh\n")
    agent_dev("--", "sh", "-c", f"rm -rf ~/.cache; ln -s {outside} ~/.cache; ln -s {outside} ~/.local-x")
    agent_dev("--", "touch", "/tmp/x")
    assert list(outside.iterdir()) == []


@row("start where repository, agent home or state hold one another", "refused with 125 before anything is made")
def test_d08_places_that_hold_one_another_are_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    for place, words in {agent_dev.home: (), Path("/"): (), agent_dev.repo: ("--home", agent_dev.repo / "inside")}.items():
        done = agent_dev(*words, "--", "true", cwd=place)
        assert done.returncode == 125, place
    assert not agent_dev.state.exists()
    assert not agent_dev.agent_home.exists()
    assert not (agent_dev.repo / "inside").exists()


@row("write agent-dev's own settings or program in a place that the user lets it write directly", "refused with 125")
def test_d08_no_settings_and_no_program_of_ours_are_ever_written_directly(agent_dev: AgentDev, tmp_path: Path) -> None:
    config, dotfiles = tmp_path / "config/agent-dev", agent_dev.home / "dotfiles"
    config.mkdir(parents=True)
    dotfiles.mkdir()
    (dotfiles / "agent-dev.yaml").write_text("net: none\n")
    (config / "config.yaml").symlink_to(dotfiles / "agent-dev.yaml")
    program = Path(load.__file__).parents[1]
    for place in (config, config.parent, dotfiles, program, program / "host", Path(sys.prefix)):
        done = agent_dev("--rw", place, "--", "touch", place / "planted")
        assert (done.returncode, "agent-dev's own" in done.stderr) == (125, True), place
        assert not (place / "planted").exists()
    done = agent_dev("run", "--direct", "--", "touch", "planted", cwd=dotfiles)
    assert (done.returncode, list(dotfiles.iterdir())) == (125, [dotfiles / "agent-dev.yaml"]), done.stderr
    assert agent_dev("--", "true", cwd=dotfiles).returncode == 0  # through an overlay, what it writes waits


@row("hide something by a mount inside the repository", "such a mount is found and named before the start")
def test_d09_a_mount_inside_the_repository_is_named(agent_dev: AgentDev) -> None:
    script = f'mount -t tmpfs tmpfs {agent_dev.repo}/sub && exec "$@"'
    done = agent_dev("--", "true", before=("unshare", "-rm", "sh", "-c", script, "sh"))
    assert done.returncode == 125
    assert f"{agent_dev.repo}/sub" in done.stderr


@row("make files outside: in `/`, `/etc`, beside the repository", "all is read-only there, or does not exist")
def test_d10_nothing_can_be_written_outside(found: dict[str, Any], shared: World) -> None:
    below_tmp = str(shared.folder)  # of the sandbox, when the host's folder is there
    assert {error for place, error in found["written"].items() if place != below_tmp} <= {"EROFS", "ENOENT", "EACCES"}
    assert not list(shared.folder.glob("planted"))
    assert not (shared.repo.parent / "planted").exists()


@row("read the rest of the disk: the real home, other repositories, `/srv`", "only what is listed is shown: ENOENT")
def test_d11_the_rest_of_the_disk_is_not_there(found: dict[str, Any], shared: World, secrets: list[str]) -> None:
    read = {path: text for path, text in found["read"].items() if path != str(shared.repo / ".env")}
    assert {path: text for path, text in read.items() if CANARY in text} == {}


@row("read tokens that tools keep: npm, cargo, gem, pip, docker, aws …", "not shown, or masked")
def test_d12_credentials_of_tools_are_absent_or_empty(found: dict[str, Any], shared: World) -> None:
    known = {path: found["read"][str(shared.home / path)] for path in FILES}
    assert {path: text for path, text in known.items() if text not in ("ENOENT", "", "EACCES")} == {}


@row("read tokens and pointers from the environment", "it is built from a list: nothing else comes in")
def test_d13_the_environment_is_the_list(found: dict[str, Any]) -> None:
    known = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "AGENT_DEV_SESSION", "LANG", "TERM", "PROBE", "LC_CTYPE"}
    assert set(found["environment"]) <= known
    assert [name for name, value in found["environment"].items() if CANARY in value and name != "PROBE"] == []


@row(
    "read secrets that lie in the repository, and send them away",
    "they are named; `mask:` hides them",
    RESIDUAL,
)
def test_d14_secrets_in_the_repository_can_be_read(found: dict[str, Any], shared: World) -> None:
    assert CANARY in found["read"][str(shared.repo / ".env")]


@row("reach the state directory: uppers, checkpoints, journals", "it is not shown, and no mount names it")
def test_d15_the_state_directory_is_not_there(found: dict[str, Any], shared: World) -> None:
    assert [row for row in found["table"] if str(shared.program.state) in row[0] or str(shared.program.state) in row[2]] == []
    assert all(text == "ENOENT" for path, text in found["read"].items() if str(shared.program.state) in path)


PLANT = """
for name in git bwrap sh python3 ls cat id busctl less vim; do
    for place in ~/.local/agent/bin ~/bin ~/.local/bin bin; do
        mkdir -p $place
        printf '#!/bin/sh\\ntouch "%s"\\n' "$MARK" >$place/$name
        chmod 755 $place/$name
    done
done
printf '[core]\\n\\thooksPath = %s\\n\\tfsmonitor = touch %s\\n\\tpager = touch %s\\n' ~/hooks "$MARK" "$MARK" >~/.gitconfig
echo "touch $MARK" >~/.bashrc; echo "touch $MARK" >~/.profile
git config core.fsmonitor "touch $MARK"
mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch %s\\n' "$MARK" >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout
printf '* filter=x\\n' >.gitattributes; git config filter.x.clean "touch $MARK"; git config filter.x.smudge "touch $MARK"
echo edited >>README.md
"""


@row("have programs or settings of the agent home or the repository run outside", "the host executes and believes none of them")
def test_d16_nothing_of_the_agent_home_or_the_repository_runs_outside(agent_dev: AgentDev, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    first = agent_dev("--env", f"MARK={mark}", "--", "sh", "-c", PLANT)
    assert first.returncode == 0, first.stderr
    path = f"{agent_dev.repo}/bin:{agent_dev.agent_home}/bin:{agent_dev.env['PATH']}"
    for words in (("status",), ("diff",), ("merge", "--all"), ("--", "true"), ("doctor",), ("show", "bash")):
        trace = tmp_path / "trace"
        strace = ("strace", "-f", "-qq", "-e", "trace=execve", "-o", str(trace)) if words != ("doctor",) else ()
        agent_dev(*words, env={"PATH": path}, before=strace, timeout=120)
    assert not mark.exists()


@row("have the launcher take git or bwrap from a directory the agent wrote", "programs are never taken from there")
def test_d18_no_program_is_taken_from_where_an_agent_can_write(agent_dev: AgentDev, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    for place in (agent_dev.agent_home / "bin", agent_dev.repo / "bin"):
        place.mkdir(parents=True)
        for name in ("bwrap", "git"):
            (place / name).write_text(f'#!/bin/sh\ntouch {mark}\nexec /usr/bin/{name} "$@"\n')
            (place / name).chmod(0o755)
        done = agent_dev("--", "true", env={"PATH": f"{place}:{agent_dev.env['PATH']}"})
        assert done.returncode == 0, done.stderr
    assert not mark.exists()


@row("redirect the tool's own home or settings by a `.env` in the repository", "it is never read")
def test_d21_an_env_file_of_the_repository_is_never_read(agent_dev: AgentDev, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (agent_dev.repo / ".env").write_text(f"HOME={other}\nXDG_STATE_HOME={other}\nAGENT_DEV_HOME={other}\n")
    agent_dev("--", "touch", "x")
    assert not other.exists()
    assert agent_dev.agent_home.is_dir()


@row("have a working directory or link define what is shown", "the boundary is the real path that the launcher found")
def test_d22_a_link_as_working_directory_shows_what_it_leads_to_alone(agent_dev: AgentDev, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(agent_dev.repo / "sub")
    done = agent_dev("-C", link, "--", "sh", "-c", f"pwd; ls -d {link} {tmp_path}/home/.ssh")
    assert done.stdout == f"{agent_dev.repo}/sub\n"


@row("use a mount that came out in another order or place than planned", "the table inside is what the plan says")
def test_d24_the_mount_table_inside_is_the_plans(found: dict[str, Any], shared: World) -> None:
    points = [row[0] for row in found["table"]]
    writable = {row[0] for row in found["table"] if "rw" in row[2].split(",")}
    assert len(points) == len(set(points)) or points.count("/") <= 2
    expected = {str(shared.repo), str(shared.home), "/tmp", "/var/tmp", "/run", "/dev/shm", "/proc"}
    assert {place for place in writable if not place.startswith("/dev/")} <= expected
    assert {row[1] for row in found["table"] if row[0] == str(shared.repo)} == {"overlay"}


@row("see another session's upper, or mount one twice", "a session is locked by a living process; a second has its own")
def test_d25_a_running_session_cannot_be_started_twice(agent_dev: AgentDev) -> None:
    with agent_dev.started("--name", "first", "--", "sh", "-c", "echo one >mine; echo ready; read x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert agent_dev("--", "ls", "mine").returncode == 2
        assert agent_dev("resume", "first").returncode == 1
        process.communicate("\n", timeout=60)


@row("lead the next start out by a link in the agent home (`/oldroot`, `/newroot`)", "no link is followed: refused, nothing made")
def test_d26_links_for_an_older_bubblewrap_make_nothing_outside(agent_dev: AgentDev, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = tmp_path / "agents/src"
    for prefix in ("/oldroot", "/newroot", ""):
        agent_dev("--home", tmp_path / "agents", "--", "sh", "-c", "true")
        # A child tidies the mount points up after the command has ended.
        wait_until(lambda: place.is_symlink() or not place.exists(), "the mount points are removed")
        place.unlink(missing_ok=True)
        place.symlink_to(f"{prefix}{outside}")
        done = agent_dev("--home", tmp_path / "agents", "--", "true")
        assert done.returncode == 125, prefix
    assert list(outside.iterdir()) == []


@row("open what the first process of the sandbox holds open", "only pipes, eventfds, files in memory: no directory, no path")
def test_d27_the_first_process_holds_nothing_of_the_hosts(found: dict[str, Any]) -> None:
    assert found["held_open"] == []
