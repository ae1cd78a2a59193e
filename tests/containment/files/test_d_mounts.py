"""CONTAINMENT D: mounts, the environment, and what persists between sessions."""

import itertools
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_dev.config import load
from agent_dev.sandbox import credentials
from tests.containment.rows import RESIDUAL, row
from tests.containment.support import containers
from tests.containment.support.world import Machine
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
FILES = [f"{path}secret" if path.endswith("/") else path for path in credentials.CREDENTIAL_PATHS]  # of tools, in the home


@pytest.fixture(scope="module")
def secrets(shared: Machine) -> list[str]:
    """Create files with a canary on the host: elsewhere, other repositories, state directory, credentials; return the paths."""
    below_home = [".ssh/id_ed25519", "src/other/secret", ".bash_history", *FILES]
    places = [shared.home / name for name in below_home]
    places += [shared.folder / "srv/secret", shared.program.state / "sessions/other/secret", shared.folder / "config/secret"]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(CANARY)
    return list(dict.fromkeys(map(str, places)))


@pytest.fixture(scope="module")
def found(shared: Machine, net: str, secrets: list[str]) -> dict[str, Any]:
    """Return the results of all attempts of this module, for each network."""
    (shared.repo / ".env").write_text(f"HOME=/tmp/elsewhere\nTOKEN={CANARY}\n")
    places = ["/", "/etc", "/usr", "/usr/bin", "/var", "/proc/sys/kernel", "/home", str(shared.folder)]
    target: dict[str, Any] = {"sections": ["mounts"], "places": places, "secrets": [*secrets, str(shared.repo / ".env")]}
    return shared.run_probe(target, "--net", net, env=dict.fromkeys(SECRETS, f"/{CANARY}"))


@row("create a configuration file that did not exist", "it is a change for review, marked as risky")
def test_d01_a_new_configuration_file_is_a_risky_change(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "mkdir -p .claude .vscode; echo '{}' >.claude/settings.json; echo '{}' >.vscode/tasks.json")
    assert not (agent_dev.repo / ".claude").exists()
    done = agent_dev("merge", "--all")
    assert done.returncode == 0
    assert not (agent_dev.repo / ".claude/settings.json").exists()
    assert not (agent_dev.repo / ".vscode/tasks.json").exists()


@row("create a symlink at a mount point", "mount points are created by descriptors: refused")
def test_d03_a_symlink_at_a_mount_point_is_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    agent_dev.agent_home.mkdir()
    (agent_dev.agent_home / "src").symlink_to(outside)
    before = tree(outside)
    done = agent_dev("--", "true")
    assert done.returncode == 125
    assert "agent-dev: " in done.stderr
    assert tree(outside) == before


@row(
    "replace a mount source with a symlink between check and mount",
    "the source is opened without following symlinks, then mounted by descriptor",
)
def test_d06_a_symlink_in_the_agent_home_is_not_followed(agent_dev: AgentDev, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (agent_dev.home / ".local/bin").mkdir(parents=True)
    (agent_dev.home / ".local/bin/tool").write_text("#!/bin/sh\n")
    agent_dev("--", "sh", "-c", f"rm -rf ~/.cache; ln -s {outside} ~/.cache; ln -s {outside} ~/.local-x")
    agent_dev("--", "touch", "/tmp/x")
    assert list(outside.iterdir()) == []


@row(
    "start with a repository, agent home and state directory that contain one another",
    "refused with 125 before anything is created",
)
def test_d08_nested_repository_home_and_state_are_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    for place, argv in {agent_dev.home: (), Path("/"): (), agent_dev.repo: ("--home", agent_dev.repo / "inside")}.items():
        done = agent_dev(*argv, "--", "true", cwd=place)
        assert done.returncode == 125, place
    assert not agent_dev.state.exists()
    assert not agent_dev.agent_home.exists()
    assert not (agent_dev.repo / "inside").exists()


@row("write agent-dev's settings, program or state in a directory that the agent may write directly", "refused with 125")
def test_d08_agent_dev_settings_and_program_are_never_written_directly(agent_dev: AgentDev, tmp_path: Path) -> None:
    config, dotfiles = tmp_path / "config/agent-dev", agent_dev.home / "dotfiles"
    config.mkdir(parents=True)
    dotfiles.mkdir()
    (dotfiles / "agent-dev.yaml").write_text("net: none\n")
    (config / "config.yaml").symlink_to(dotfiles / "agent-dev.yaml")
    program = Path(load.__file__).parents[1]
    python = Path(os.__file__).parent
    trusted = (config, config.parent, dotfiles, program, program / "sandbox", program.parent / "tui", Path(sys.prefix), python)
    for place, option in itertools.product(trusted, ("--rw", "--home")):
        done = agent_dev(option, place, "--", "sh", "-c", f"touch {place}/planted ~/planted")
        assert (done.returncode, "which agent-dev trusts" in done.stderr) == (125, True), (option, place)
        assert not (place / "planted").exists()
    for place in (agent_dev.state, agent_dev.state / "sessions", agent_dev.state.parent):
        done = agent_dev("--home", place, "--", "touch", "planted")
        assert (done.returncode, "the state directory" in done.stderr) == (125, True), place
    done = agent_dev("run", "--direct", "--", "touch", "planted", cwd=dotfiles)
    assert (done.returncode, list(dotfiles.iterdir())) == (125, [dotfiles / "agent-dev.yaml"]), done.stderr
    assert agent_dev("--", "true", cwd=dotfiles).returncode == 0  # allowed with an overlay: its changes need a merge


@row("hide something by a mount inside the repository", "such mounts are found and reported before the start")
def test_d09_a_mount_inside_the_repository_is_reported(agent_dev: AgentDev) -> None:
    script = f'mount -t tmpfs tmpfs {agent_dev.repo}/sub && exec "$@"'
    done = agent_dev("--", "true", before=("unshare", "-rm", "sh", "-c", script, "sh"))
    assert done.returncode == 125
    assert f"{agent_dev.repo}/sub" in done.stderr


@row("create files outside: in `/`, `/etc`, next to the repository", "everything is read-only there, or does not exist")
def test_d10_nothing_can_be_written_outside(found: dict[str, Any], shared: Machine) -> None:
    below_tmp = str(shared.folder)  # if it is below /tmp, it is in the sandbox's own /tmp
    assert {error for place, error in found["written"].items() if place != below_tmp} <= {"EROFS", "ENOENT", "EACCES"}
    assert not list(shared.folder.glob("planted"))
    assert not (shared.repo.parent / "planted").exists()


@row("read the rest of the disk: the real home, other repositories, `/srv`", "only listed paths are mounted: ENOENT")
def test_d11_the_rest_of_the_disk_does_not_exist(found: dict[str, Any], shared: Machine, secrets: list[str]) -> None:
    read = {path: text for path, text in found["read"].items() if path != str(shared.repo / ".env")}
    assert {path: text for path, text in read.items() if CANARY in text} == {}


@row("read tokens of tools: npm, cargo, gem, pip, docker, aws …", "not mounted, or masked")
def test_d12_credentials_of_tools_are_absent_or_empty(found: dict[str, Any], shared: Machine) -> None:
    known = {path: found["read"][str(shared.home / path)] for path in FILES}
    assert {path: text for path, text in known.items() if text not in ("ENOENT", "", "EACCES")} == {}


@row("read tokens and addresses from the environment", "it is built from an allow-list")
def test_d13_the_environment_is_an_allow_list(found: dict[str, Any]) -> None:
    known = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "AGENT_DEV_SESSION", "LANG", "TERM", "PROBE", "LC_CTYPE"}
    known |= {"NPM_CONFIG_GLOBALCONFIG", "PIP_BREAK_SYSTEM_PACKAGES", *containers.VARIABLES}
    assert set(found["environment"]) <= known
    assert [name for name, value in found["environment"].items() if CANARY in value and name != "PROBE"] == []


@row("read secrets in the repository, and send them away", "they are reported at the start; `mask:` hides them", RESIDUAL)
def test_d14_secrets_in_the_repository_can_be_read(found: dict[str, Any], shared: Machine) -> None:
    assert CANARY in found["read"][str(shared.repo / ".env")]


@row("reach the state directory: uppers, checkpoints, journals", "it is not mounted, and no mount names it")
def test_d15_the_state_directory_does_not_exist(found: dict[str, Any], shared: Machine) -> None:
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


@row(
    "make programs or settings of the agent home or the repository take effect outside",
    "the host neither runs nor reads any of them",
)
def test_d16_nothing_of_the_agent_home_or_the_repository_runs_outside(agent_dev: AgentDev, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    first = agent_dev("--env", f"MARK={mark}", "--", "sh", "-c", PLANT)
    assert first.returncode == 0, first.stderr
    path = f"{agent_dev.repo}/bin:{agent_dev.agent_home}/bin:{agent_dev.env['PATH']}"
    for argv in (("status",), ("diff",), ("merge", "--all"), ("--", "true"), ("doctor",), ("show", "bash")):
        trace = tmp_path / "trace"
        strace = ("strace", "-f", "-qq", "-e", "trace=execve", "-o", str(trace)) if argv != ("doctor",) else ()
        agent_dev(*argv, env={"PATH": path}, before=strace, timeout=120)
    assert not mark.exists()


@row(
    "have the launcher run git or bwrap from a directory that the agent wrote",
    "agent-dev never runs programs from such a directory",
)
def test_d18_no_program_is_run_from_a_directory_the_agent_can_write(agent_dev: AgentDev, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    for place in (agent_dev.agent_home / "bin", agent_dev.repo / "bin"):
        place.mkdir(parents=True)
        for name in ("bwrap", "git"):
            (place / name).write_text(f'#!/bin/sh\ntouch {mark}\nexec /usr/bin/{name} "$@"\n')
            (place / name).chmod(0o755)
        done = agent_dev("--", "true", env={"PATH": f"{place}:{agent_dev.env['PATH']}"})
        assert done.returncode == 0, done.stderr
    assert not mark.exists()


@row("redirect agent-dev's home or settings with a `.env` in the repository", "it is never read")
def test_d21_an_env_file_of_the_repository_is_never_read(agent_dev: AgentDev, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (agent_dev.repo / ".env").write_text(f"HOME={other}\nXDG_STATE_HOME={other}\nAGENT_DEV_HOME={other}\n")
    agent_dev("--", "touch", "x")
    assert not other.exists()
    assert agent_dev.agent_home.is_dir()


@row("make a working directory or symlink decide what is mounted", "the boundary is the real path that the launcher resolved")
def test_d22_a_symlink_as_working_directory_mounts_only_its_target(agent_dev: AgentDev, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(agent_dev.repo / "sub")
    done = agent_dev("-C", link, "--", "sh", "-c", f"pwd; ls -d {link} {tmp_path}/home/.ssh")
    assert done.stdout == f"{agent_dev.repo}/sub\n"


@row(
    "exploit a mount that is in another order or at another path than planned",
    "the mount table inside is exactly that of the plan",
)
def test_d24_the_mount_table_inside_matches_the_plan(found: dict[str, Any], shared: Machine) -> None:
    points = [row[0] for row in found["table"]]
    writable = {row[0] for row in found["table"] if "rw" in row[2].split(",")}
    assert len(points) == len(set(points)) or points.count("/") <= 2
    expected = {str(shared.repo), str(shared.home), "/tmp", "/var/tmp", "/run", "/dev/shm", "/proc", *containers.WRITABLE}
    assert {place for place in writable if not place.startswith("/dev/")} <= expected
    assert {row[1] for row in found["table"] if row[0] == str(shared.repo)} == {"overlay"}


@row(
    "see another session's upper layer, or mount one twice",
    "a running process locks its session; a second run gets its own session",
)
def test_d25_a_running_session_cannot_be_started_twice(agent_dev: AgentDev) -> None:
    with agent_dev.start("--name", "first", "--", "sh", "-c", "echo one >mine; echo ready; read x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert agent_dev("--", "ls", "mine").returncode == 2
        assert agent_dev("resume", "first").returncode == 1
        process.communicate("\n", timeout=60)


@row(
    "make the next start create files outside, by a symlink in the agent home (`/oldroot`, `/newroot`)",
    "no symlink is followed: refused, and nothing is created",
)
def test_d26_symlinks_for_an_older_bubblewrap_create_nothing_outside(agent_dev: AgentDev, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = tmp_path / "agents/src"
    for prefix in ("/oldroot", "/newroot", ""):
        agent_dev("--home", tmp_path / "agents", "--", "sh", "-c", "true")
        # A child of the launcher removes the mount points after the command has exited.
        wait_until(lambda: place.is_symlink() or not place.exists(), "the mount points are removed")
        place.unlink(missing_ok=True)
        place.symlink_to(f"{prefix}{outside}")
        done = agent_dev("--home", tmp_path / "agents", "--", "true")
        assert done.returncode == 125, prefix
    assert list(outside.iterdir()) == []


@row("open the descriptors of the sandbox's first process", "only pipes, eventfds and memory files: no directory, no path")
def test_d27_the_first_process_has_no_descriptors_of_the_host(found: dict[str, Any]) -> None:
    assert found["held_open"] == []
