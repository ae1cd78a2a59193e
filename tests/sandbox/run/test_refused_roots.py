"""Directories that are refused before anything is created: as root, as a mounted path, or as state directory."""

import os
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, tree
from tests.sandbox.policy.refusals import IN_NAMESPACE, NOTHING_RAN, refused

# Refused roots and paths


def test_the_home_is_refused(agent_dev: AgentDev) -> None:
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=agent_dev.home), "is your home directory")
    assert not agent_dev.state.exists()
    assert not agent_dev.agent_home.exists()


def test_the_root_directory_is_refused(agent_dev: AgentDev) -> None:
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=Path("/")), "/")
    assert not agent_dev.state.exists()


# Relation of the path → (state directory, agent home, path), below one directory
PLACES = {
    "holds the state directory": ("it/state", "ai", "it"),
    "is the state directory": ("it", "ai", "it/agent-dev"),
    "lies in the state directory": ("it", "ai", "it/agent-dev/below"),
    "holds the agent home": ("state", "it/ai", "it"),
    "is the agent home": ("state", "it", "it"),
    "lies in the agent home": ("state", "it", "it/below"),
}


@pytest.mark.parametrize("option", ["root", "--ro", "--rw", "--overlay"])
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES.keys())
def test_a_path_containing_or_below_agent_dev_directories_is_refused(
    agent_dev: AgentDev, tmp_path: Path, option: str, places: tuple[str, str, str]
) -> None:
    state, home, path = (tmp_path / "x" / place for place in places)
    path.mkdir(parents=True)
    before = tree(tmp_path / "x")
    given: list[str | Path] = [] if option == "root" else [option, path]
    cwd = path if option == "root" else agent_dev.repo
    done = agent_dev("--home", home, *given, *NOTHING_RAN, cwd=cwd, env={"XDG_STATE_HOME": str(state)})
    refused(agent_dev, done, str(path))
    assert tree(tmp_path / "x") == before


def test_a_symlink_to_the_agent_home_is_refused_as_the_agent_home(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev.agent_home.mkdir()
    (tmp_path / "link").symlink_to(agent_dev.agent_home)
    refused(agent_dev, agent_dev("--rw", tmp_path / "link", *NOTHING_RAN), "agent home")


MOUNT_BELOW = {
    "a file system": "mount -t tmpfs tmpfs sub/deep",
    "a bind mount of a directory": "mount --bind /usr sub/deep",
    "a bind mount of a file": "mount --bind /usr/bin/env README.md",
}


@pytest.mark.parametrize("mount", MOUNT_BELOW.values(), ids=MOUNT_BELOW.keys())
def test_a_mount_below_the_root_is_refused_by_name(agent_dev: AgentDev, mount: str) -> None:
    before = (*IN_NAMESPACE, "sh", "-c", f'{mount} || exit 99; exec "$@"', "sh")
    refused(agent_dev, agent_dev(*NOTHING_RAN, before=before), f"{agent_dev.repo}/{mount.rsplit(maxsplit=1)[-1]}")
    assert not agent_dev.state.exists()


@pytest.mark.parametrize("option", ["--overlay", "--rw", "--home"])
def test_a_directory_with_bubblewrap_is_refused_as_such(agent_dev: AgentDev, tmp_path: Path, option: str) -> None:
    program = tmp_path / "programs/bwrap"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    done = agent_dev(option, program.parent, *NOTHING_RAN, env={"PATH": str(program.parent)})
    refused(agent_dev, done, f"{program} cannot be trusted: an agent could write to {program.parent}")


def test_a_root_of_another_user_is_refused_for_root(agent_dev: AgentDev, tmp_path: Path) -> None:
    before: tuple[str, ...] = ()
    if os.getuid() == 0:
        others = tmp_path / "others"
        others.mkdir()
        os.chown(others, 12345, 12345)
    else:  # a directory of the real root, seen by root of a user namespace
        others, before = Path("/usr/share"), IN_NAMESPACE
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=others, before=before), "but you are root")
    assert not agent_dev.state.exists()


# Unusable state directories

# Commands for a shell that runs as root of its own mount namespace, in the parent of the directory `state`.
BAD_STATES = {
    "read-only": "mount -t tmpfs -o ro tmpfs state",
    "without room for a file": "mount -t tmpfs -o nr_inodes=2 tmpfs state",
    "full": "mount -t tmpfs -o size=4k tmpfs state && dd if=/dev/zero of=state/full bs=4k count=1 2>/dev/null",
    "on an overlay": "mkdir -p u w && mount -t overlay overlay -o lowerdir=u,upperdir=lower,workdir=w,userxattr state",
    "no directory": "mount --bind /usr/bin/env state/agent-dev",
}


@pytest.mark.parametrize("kind", BAD_STATES)
def test_an_unusable_state_directory_is_refused_with_a_hint(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "lower").mkdir()
    if kind == "no directory":
        (tmp_path / "state/agent-dev").write_text("")
    script = f'cd {tmp_path}; {BAD_STATES[kind]} || exit 99; cd "$0"; "$@"; code=$?'
    script += f'; find {tmp_path}/state -path "*/sessions/*"; exit $code'
    done = agent_dev(*NOTHING_RAN, before=(*IN_NAMESPACE, "sh", "-c", script, str(agent_dev.repo)))
    refused(agent_dev, done, "")
    assert "`state:` in config.yaml" in done.stderr
