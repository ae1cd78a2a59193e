"""Where a session works, what else it is given, and what is refused before anything exists."""

import json
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.core.plan import ORDINARY
from tests.harness.program import AgentDev, tree, wait_until

IN_NAMESPACE = ("unshare", "-rm")  # root over mounts of its own, for an ordinary user, too


def refused(agent_dev: AgentDev, done: subprocess.CompletedProcess[str], reason: str) -> None:
    """Check a refusal: its code, that nothing ran, its reason in one line and a hint, and that nothing was created."""
    assert done.returncode == 125, done.stderr
    assert done.stdout == ""
    first, *hints = [line for line in done.stderr.splitlines() if not line.startswith("bwrap: ")]
    assert first.startswith("agent-dev: ")
    assert reason in first
    assert all(line.startswith("agent-dev: → ") for line in hints)
    assert agent_dev.leavings() == []


# Where a session works


def test_from_a_sub_directory_the_cwd_is_kept(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "pwd", cwd=agent_dev.repo / "sub/deep")
    assert done.stdout == f"{agent_dev.repo}/sub/deep\n"


def test_from_a_sub_directory_the_root_is_the_work_trees_top(agent_dev: AgentDev) -> None:
    below = agent_dev.repo / "sub/deep"
    agent_dev("--", "sh", "-c", "echo x >../../top; echo y >here", cwd=below)
    status = agent_dev.status(cwd=below)
    assert status["root"] == str(agent_dev.repo)
    assert {change["path"] for change in status["changes"]} == {"top", "sub/deep/here"}
    assert not (agent_dev.repo / "top").exists()


def test_another_directory_is_chosen_by_an_option(agent_dev: AgentDev, tmp_path: Path) -> None:
    assert agent_dev("-C", agent_dev.repo / "sub", "--", "pwd", cwd=tmp_path).stdout == f"{agent_dev.repo}/sub\n"


def test_a_link_to_a_repository_is_the_repository(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(agent_dev.repo)
    assert agent_dev("--", "pwd", "-P", cwd=tmp_path / "link").stdout == f"{agent_dev.repo}\n"


def test_a_directory_without_git_works(agent_dev: AgentDev, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "old").write_text("old\n")
    (plain / "gone").write_text("gone\n")
    agent_dev("--", "sh", "-c", "echo new >new; echo more >>old; rm gone", cwd=plain)
    assert tree(plain).keys() == {".", "old", "gone"}
    assert agent_dev.changes(cwd=plain) == {"new": "added", "old": "edited", "gone": "deleted"}
    assert agent_dev("merge", "--all", "--include-risky", cwd=plain).returncode == 0
    assert tree(plain).keys() == {".", "old", "new"}
    assert (plain / "old").read_text() == "old\nmore\n"


NAMES = {
    "space": "my shop",
    "colon": "co:lon",
    "comma": "a,b=c",
    "backslash": "back\\slash",
    "newline": "new\nline",
    "0xff": os.fsdecode(b"b\xffyte"),
    "quotes": 'it\'s "so"',
    "percent": "100%s",
    "dash": "-n",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_root_may_have_any_name(agent_dev: AgentDev, name: str) -> None:
    root = agent_dev.home / name
    (root / "sub").mkdir(parents=True)
    agent_dev.git("init", "-q", cwd=root)
    (root / "sub/old").write_text("old\n")
    agent_dev.git("add", "-A", cwd=root)
    agent_dev.git("commit", "-q", "-m", "Begin", cwd=root)
    done = agent_dev("--", "sh", "-c", "pwd; cat old; echo new >new; git commit -qam x --allow-empty", cwd=root / "sub")
    assert done.stdout == f"{root}/sub\nold\n", done.stderr
    assert done.returncode == 0
    assert agent_dev.changes(cwd=root) == {"sub/new": "added"}
    assert agent_dev("merge", "--all", cwd=root).returncode == 0
    assert (root / "sub/new").read_text() == "new\n"


def test_the_state_directory_may_have_any_name(agent_dev: AgentDev, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "st:a,te \\x\n")}
    agent_dev("--", "touch", "new", env=env)
    done = agent_dev("merge", "--all", env=env)
    assert (done.returncode, (agent_dev.repo / "new").exists()) == (0, True), done.stderr


def test_the_roots_mode_is_the_same_inside(agent_dev: AgentDev) -> None:
    agent_dev.repo.chmod(0o2751)
    assert agent_dev("--", "stat", "-c", "%a", ".").stdout == "2751\n"


def test_the_roots_attributes_are_the_same_inside(agent_dev: AgentDev) -> None:
    os.setxattr(agent_dev.repo, "user.colour", b"blue")
    code = "import json, os; print(json.dumps(os.getxattr('.', 'user.colour').decode()))"
    assert agent_dev.show_inside(code) == "blue"


def test_the_roots_access_list_is_the_same_inside(agent_dev: AgentDev) -> None:
    def acl(user: int) -> bytes:
        entries = [(1, 7, -1), (2, 5, user), (4, 5, -1), (16, 5, -1), (32, 0, -1)]  # acl(5): tag, rights, id
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, rights, who & 0xFFFFFFFF) for tag, rights, who in entries)

    os.setxattr(agent_dev.repo, "system.posix_acl_access", acl(os.getuid()))
    code = "import json, os; print(json.dumps(os.getxattr('.', 'system.posix_acl_access').hex()))"
    assert agent_dev.show_inside(code) == acl(os.getuid() or ORDINARY).hex()  # as the kernel maps the user's own number


# Git


def test_the_agent_commits_in_a_repository_and_the_users_git_dir_stays_as_it_was(agent_dev: AgentDev) -> None:
    before = tree(agent_dev.repo)
    done = agent_dev(
        "--", "sh", "-c", "echo x >new && git add -A && git commit -qm 'Add new' && git gc -q && git log --format=%s"
    )
    assert done.stdout == "Add new\nCount to two\nStart the shop\n", done.stderr
    assert tree(agent_dev.repo) == before
    assert [commit["subject"] for commit in agent_dev.status()["commits"]] == ["Add new"]


@pytest.fixture
def linked(agent_dev: AgentDev, tmp_path: Path) -> Path:
    """A linked work tree of the repository, on a branch of its own."""
    agent_dev.git("worktree", "add", "-q", "-b", "side", tmp_path / "linked")
    return tmp_path / "linked"


def test_the_agent_commits_in_a_linked_work_tree(agent_dev: AgentDev, linked: Path) -> None:
    script = "echo x >new && git add -A && git commit -qm 'Add new' && git status --short && git log --format=%s"
    script += " && git branch --show-current"
    done = agent_dev("--", "sh", "-c", script, cwd=linked)
    assert done.stdout == "Add new\nCount to two\nStart the shop\nside\n", done.stderr
    status = agent_dev.status(cwd=linked)
    assert [change["path"] for change in status["changes"]] == ["new"]
    assert [commit["subject"] for commit in status["commits"]] == ["Add new"]


def test_work_in_a_linked_work_tree_leaves_the_main_one_as_it_was(agent_dev: AgentDev, linked: Path) -> None:
    before, here = tree(agent_dev.repo), tree(linked)
    script = "git config core.hooksPath /tmp; git commit -qm x --allow-empty; git branch other"
    script += "; mkdir -p $(git rev-parse --git-common-dir)/hooks; echo evil >$(git rev-parse --git-common-dir)/hooks/pre-commit"
    agent_dev("--", "sh", "-c", script, cwd=linked)
    assert [commit["subject"] for commit in agent_dev.status(cwd=linked)["commits"]] == ["x"]
    assert tree(agent_dev.repo) == before
    assert tree(linked) == here


def test_the_main_work_tree_of_a_linked_one_is_not_shown(agent_dev: AgentDev, linked: Path) -> None:
    assert agent_dev("--", "cat", agent_dev.repo / "README.md", cwd=linked).returncode == 1


# What else is given


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A directory outside of the repository, with a file."""
    given = tmp_path / "given"
    given.mkdir()
    (given / "file").write_text("given\n")
    return given


def test_a_path_given_to_read_cannot_be_written(agent_dev: AgentDev, given: Path) -> None:
    before = tree(given)
    done = agent_dev(
        "--ro", given, "--", "sh", "-c", f"cat {given}/file; touch {given}/new; echo x >{given}/file; rm -f {given}/file"
    )
    assert done.stdout == "given\n"
    assert done.stderr.count("Read-only file system") == 3
    assert tree(given) == before


def test_a_file_alone_can_be_given_to_read(agent_dev: AgentDev, given: Path) -> None:
    (given / "other").write_text("other")
    done = agent_dev("--ro", given / "file", "--", "ls", given)
    assert done.stdout == "file\n"


def test_a_path_given_to_write_is_written_directly_and_this_is_said(agent_dev: AgentDev, given: Path) -> None:
    done = agent_dev("--rw", given, "--", "touch", given / "new")
    assert (given / "new").exists()
    assert [line for line in done.stderr.splitlines() if f"--rw {given}" in line and "directly" in line]


def test_changes_below_an_overlay_wait_for_review(agent_dev: AgentDev, given: Path) -> None:
    before = tree(given)
    agent_dev("--overlay", given, "--", "sh", "-c", f"echo more >>{given}/file; touch {given}/new here")
    assert tree(given) == before
    assert agent_dev.changes() == {"here": "added", f"{given}/file": "edited", f"{given}/new": "added"}
    assert agent_dev("merge", "--take", given).returncode == 0
    assert (given / "file").read_text() == "given\nmore\n"
    assert (given / "new").exists()
    assert not (agent_dev.repo / "here").exists()


@pytest.mark.parametrize("option", ["--ro", "--rw", "--overlay"])
def test_a_path_of_the_users_home_can_be_given(agent_dev: AgentDev, option: str) -> None:
    (agent_dev.home / "notes").mkdir()
    (agent_dev.home / "notes/today").write_text("today\n")
    assert agent_dev(option, agent_dev.home / "notes", "--", "cat", agent_dev.home / "notes/today").stdout == "today\n"


@pytest.mark.parametrize("option", ["--ro", "--rw", "--overlay"])
def test_a_path_that_does_not_exist_is_refused(agent_dev: AgentDev, tmp_path: Path, option: str) -> None:
    refused(agent_dev, agent_dev(option, tmp_path / "missing", "--", "echo", "ran"), "does not exist")


def test_another_agent_home_is_chosen_by_an_option(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev("--home", tmp_path / "other-home", "--", "sh", "-c", "echo x >~/mine")
    assert (tmp_path / "other-home/mine").read_text() == "x\n"
    assert not agent_dev.agent_home.exists()


CONNECT = """if True:
    import json, os, socket
    try:
        socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5).close()
        print(json.dumps("connected"))
    except OSError as error:
        print(json.dumps(error.strerror))
"""


@pytest.mark.parametrize(("net", "answer"), [("host", "connected"), ("none", "Connection refused")])
def test_the_hosts_loopback_is_reached_with_the_hosts_network_alone(agent_dev: AgentDev, net: str, answer: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert agent_dev.show_inside(CONNECT, "--net", net, "--env", f"PORT={port}") == answer


def test_without_a_network_its_own_loopback_works(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, socket
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname(), 5).close()
        print(json.dumps([name for _, name in socket.if_nameindex()]))
    """
    assert agent_dev.show_inside(code, "--net", "none") == ["lo"]


# What is refused

NOTHING_RAN = ("--", "echo", "ran")


def test_the_home_is_refused(agent_dev: AgentDev) -> None:
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=agent_dev.home), "is your home directory")
    assert not agent_dev.state.exists()
    assert not agent_dev.agent_home.exists()


def test_the_whole_system_is_refused(agent_dev: AgentDev) -> None:
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=Path("/")), "/")
    assert not agent_dev.state.exists()


# name of the place → (where the state directory is, where the agent home is, where the path is), below a folder
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
def test_a_path_that_holds_or_lies_in_a_place_of_agent_devs_is_refused(
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


def test_a_link_to_the_agent_home_is_refused_as_the_agent_home(agent_dev: AgentDev, tmp_path: Path) -> None:
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


def test_a_root_of_another_user_is_refused_for_root(agent_dev: AgentDev, tmp_path: Path) -> None:
    before: tuple[str, ...] = ()
    if os.getuid() == 0:
        others = tmp_path / "others"
        others.mkdir()
        os.chown(others, 12345, 12345)
    else:  # root of a namespace of our own, and a directory of the real root's
        others, before = Path("/usr/share"), IN_NAMESPACE
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=others, before=before), "and you are root")
    assert not agent_dev.state.exists()


# As root of a namespace: a directory of ours in which the real root's files of /etc/ssl lie, nobody's to us.
WITH_FOREIGN_FILES = """
mkdir -p upper work && mount -t overlay overlay -o lowerdir=/etc/ssl,upperdir=upper,workdir=work,userxattr given || exit 99
cd given && exec "$@"
"""


def test_a_file_of_another_user_is_named_before_the_start(agent_dev: AgentDev, given: Path) -> None:
    if os.getuid() == 0:
        os.chown(given / "file", 12345, 12345)
        done = agent_dev("--", "true", cwd=given)
    else:
        before = (*IN_NAMESPACE, "sh", "-c", WITH_FOREIGN_FILES, "sh")
        done = agent_dev("--", "true", cwd=given.parent, before=before)
    assert [line for line in done.stderr.splitlines() if "of another user" in line and f"{given}/" in line]


# A state directory that cannot be used

# The words are appended to a shell's that runs as root of a mount namespace of its own, in the folder of the state directory.
BAD_STATES = {
    "read-only": "mount -t tmpfs -o ro tmpfs state",
    "without room for a file": "mount -t tmpfs -o nr_inodes=2 tmpfs state",
    "full": "mount -t tmpfs -o size=4k tmpfs state && dd if=/dev/zero of=state/full bs=4k count=1 2>/dev/null",
    "on an overlay": "mkdir -p u w && mount -t overlay overlay -o lowerdir=u,upperdir=lower,workdir=w,userxattr state",
    "no directory": "mount --bind /usr/bin/env state/agent-dev",
}


@pytest.mark.parametrize("kind", BAD_STATES)
def test_a_state_directory_that_cannot_be_used_is_refused_with_a_way_out(agent_dev: AgentDev, tmp_path: Path, kind: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "lower").mkdir()
    if kind == "no directory":
        (tmp_path / "state/agent-dev").write_text("")
    script = f'cd {tmp_path}; {BAD_STATES[kind]} || exit 99; cd "$0"; "$@"; code=$?'
    script += f'; find {tmp_path}/state -path "*/sessions/*"; exit $code'
    done = agent_dev(*NOTHING_RAN, before=(*IN_NAMESPACE, "sh", "-c", script, str(agent_dev.repo)))
    refused(agent_dev, done, "")
    assert "`state:` in config.yaml" in done.stderr


# Fail closed


@pytest.fixture
def path_without_bwrap(tmp_path: Path) -> str:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "git", "echo", "env"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return str(folder)


def nothing_was_made(agent_dev: AgentDev) -> bool:
    return not agent_dev.state.exists() and not agent_dev.agent_home.exists()


def test_without_bubblewrap_nothing_runs_and_nothing_is_made(agent_dev: AgentDev, path_without_bwrap: str) -> None:
    done = agent_dev(*NOTHING_RAN, env={"PATH": path_without_bwrap, "AGENT_DEV_BWRAP": None})
    refused(agent_dev, done, "bubblewrap")
    assert "install" in done.stderr
    assert nothing_was_made(agent_dev)


def test_a_chosen_bubblewrap_that_is_missing_is_not_replaced_by_another(agent_dev: AgentDev, tmp_path: Path) -> None:
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": str(tmp_path / "missing")})
    refused(agent_dev, done, "AGENT_DEV_BWRAP")
    assert nothing_was_made(agent_dev)


def test_a_bubblewrap_that_is_none_is_refused(agent_dev: AgentDev) -> None:
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": "/bin/true"})
    refused(agent_dev, done, "/bin/true")
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_text("")], ids=["directory", "file"])
def test_a_chosen_bubblewrap_that_cannot_be_executed_is_refused(
    agent_dev: AgentDev, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "bwrap")
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": str(tmp_path / "bwrap")})
    refused(agent_dev, done, "AGENT_DEV_BWRAP")
    assert nothing_was_made(agent_dev)


def test_an_unknown_way_of_mounting_overlays_is_refused(agent_dev: AgentDev) -> None:
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_OVERLAY": "fuse"})
    refused(agent_dev, done, "AGENT_DEV_OVERLAY is fuse: it is launcher or bwrap")
    assert nothing_was_made(agent_dev)


def test_a_way_that_this_bubblewrap_has_not_is_refused(agent_dev: AgentDev, tmp_path: Path) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.10.1\n")
    old.chmod(0o755)
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_OVERLAY": "bwrap", "AGENT_DEV_BWRAP": str(old)})
    refused(agent_dev, done, "this bubblewrap has no overlays")
    assert nothing_was_made(agent_dev)


# Where an agent can have written a program: what says so, and the words for agent-dev
WRITTEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "the repository": ("src/shop", ("--",)),
    "the default agent home": ("aihome", ("--",)),
    "the default agent home, with another in use": ("aihome", ("--home", "{home}/other", "--")),
    "the home of --home": ("elsewhere", ("--home", "{home}/elsewhere", "--")),
    "the home of a variable": ("elsewhere", ("--",)),
    "the home of a profile": ("elsewhere", ("mine",)),
    "the home of config.yaml": ("elsewhere", ("--",)),
    "what --rw shows": ("elsewhere", ("--rw", "{home}/elsewhere", "--")),
    "what --overlay shows": ("elsewhere", ("--overlay", "{home}/elsewhere", "--")),
}


@pytest.mark.parametrize("program", ["bwrap", "git"])
@pytest.mark.parametrize("place", WRITTEN)
def test_no_program_is_taken_from_where_an_agent_can_write(agent_dev: AgentDev, place: str, program: str) -> None:
    folder, words = WRITTEN[place]
    planted = agent_dev.home / folder / "programs" / program
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {agent_dev.home}/executed\necho bubblewrap 9.9\n")
    planted.chmod(0o755)
    env = {"PATH": f"{planted.parent}:/usr/bin:/bin", "AGENT_DEV_BWRAP": None}
    env |= {"AGENT_DEV_HOME": f"{agent_dev.home}/elsewhere"} if "variable" in place else {}
    config = agent_dev.home.parent / "config/agent-dev"
    (config / "profiles").mkdir(parents=True)
    (config / "profiles/mine.yaml").write_text("home: ~/elsewhere\ncommand: [env]\n")
    if "config" in place:
        (config / "config.yaml").write_text("home: ~/elsewhere\n")

    script = "echo x >new; git add -A; git commit -qm One"
    *options, agent = (word.format(home=agent_dev.home) for word in words)
    agent_dev(*options, agent, "sh", "-c", script, env=env)
    for word in ("status", "diff", "commits", *(["doctor"] if agent == "--" else [])):
        agent_dev(*options, word, env=env)
    assert agent_dev("merge", "--take", "new", env=env).returncode == 0
    assert not (agent_dev.home / "executed").exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_when_bubblewrap_fails_its_message_is_shown_and_nothing_runs(agent_dev: AgentDev, tmp_path: Path, when: str) -> None:
    real = agent_dev.env.get("AGENT_DEV_BWRAP") or shutil.which("bwrap")
    failing = tmp_path / "bwrap"
    failing.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\necho "bwrap: Failed to make / slave: no luck" >&2\nexit 1\n'
    )
    failing.chmod(0o755)
    done = agent_dev(*NOTHING_RAN, env={"AGENT_DEV_BWRAP": str(failing)})
    assert (done.returncode, done.stdout) == (125, "")
    assert "Failed to make / slave: no luck" in done.stderr
    assert "→" in done.stderr
    assert agent_dev.leavings() == []


def test_without_user_namespaces_nothing_runs_and_the_cure_is_said(agent_dev: AgentDev) -> None:
    script = 'echo 0 >/proc/sys/user/max_user_namespaces || exit 99; exec "$@"'
    done = agent_dev(*NOTHING_RAN, before=("unshare", "-r", "sh", "-c", script, "sh"))
    assert (done.returncode, done.stdout) == (125, "")
    assert "max_user_namespaces" in done.stderr
    assert "Traceback" not in done.stderr
    assert agent_dev.leavings() == []


# Commands that cannot be run


def test_an_unknown_agent_is_not_found(agent_dev: AgentDev) -> None:
    done = agent_dev("no-such-agent")
    assert (done.returncode, done.stdout) == (127, "")
    assert "no-such-agent: not found" in done.stderr.splitlines()[0]
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize(("agent", "package"), [("claude", "@anthropic-ai/claude-code"), ("codex", "@openai/codex")])
def test_a_profile_whose_command_is_missing_says_how_to_install_it(agent_dev: AgentDev, agent: str, package: str) -> None:
    done = agent_dev(agent)
    assert done.returncode == 127
    assert package in done.stderr
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize(
    "make", [lambda path: path.write_text("#!/bin/sh\n"), lambda path: path.mkdir()], ids=["file", "directory"]
)
def test_what_is_not_executable_is_said_to_be(agent_dev: AgentDev, make: Callable[[Path], object]) -> None:
    make(agent_dev.repo / "thing")
    done = agent_dev("--", "./thing")
    assert (done.returncode, done.stdout) == (126, "")
    assert "./thing: not executable" in done.stderr
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("line", ["#!{home}/python", "#! {home}/python  -I", "#!/no/such/interpreter"])
def test_a_script_whose_interpreter_is_missing_inside_is_not_found(agent_dev: AgentDev, line: str) -> None:
    interpreter = line.format(home=agent_dev.home)
    (agent_dev.home / "python").symlink_to("/bin/sh")  # there, and not inside
    (agent_dev.repo / "script").write_text(f"{interpreter}\n")
    (agent_dev.repo / "script").chmod(0o755)
    done = agent_dev("--", "./script")
    assert (done.returncode, done.stdout) == (127, "")
    missing = interpreter.removeprefix("#!").split()[0]
    assert done.stderr.splitlines()[0] == f"agent-dev: ./script: its interpreter {missing} is not there inside"
    assert nothing_was_made(agent_dev)


@pytest.mark.parametrize("line", ["#!/bin/sh", "#! /usr/bin/env sh", "#!./bin/mine", "# none"])
def test_a_script_whose_interpreter_is_there_runs(agent_dev: AgentDev, line: str) -> None:
    (agent_dev.repo / "bin").mkdir()
    (agent_dev.repo / "bin/mine").symlink_to("/bin/sh")
    (agent_dev.repo / "script").write_text(f"{line}\necho ran\n")
    (agent_dev.repo / "script").chmod(0o755)
    assert agent_dev("--", "./script").stdout == "ran\n"


def test_a_link_that_leads_nowhere_inside_is_found_and_does_not_start(agent_dev: AgentDev) -> None:
    (agent_dev.home / "tool").write_text("#!/bin/sh\n")
    (agent_dev.home / "tool").chmod(0o755)
    (agent_dev.repo / "tool").symlink_to(agent_dev.home / "tool")
    done = agent_dev("--", "./tool")
    assert (done.returncode, done.stdout) == (127, "")
    assert "agent-dev: ./tool: it is there, but does not start inside\n" in done.stderr
    wait_until(lambda: agent_dev.leavings() == [], "nothing is left of the session")


def test_a_command_that_lies_outside_is_not_found(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tool").chmod(0o755)
    done = agent_dev("--", tmp_path / "tool")
    assert (done.returncode, done.stdout) == (127, "")


@pytest.mark.parametrize("value", [None, "", "relative"], ids=["unset", "empty", "relative"])
def test_without_a_home_nothing_runs(agent_dev: AgentDev, value: str | None) -> None:
    done = agent_dev(*NOTHING_RAN, env={"HOME": value})
    refused(agent_dev, done, "HOME")


def test_a_home_that_does_not_exist_is_refused_and_not_made(agent_dev: AgentDev, tmp_path: Path) -> None:
    nowhere = {name: None for name in agent_dev.env if name.startswith("XDG_")} | {"HOME": str(tmp_path / "nobody")}
    refused(agent_dev, agent_dev(*NOTHING_RAN, env=nowhere), f"HOME is {tmp_path}/nobody, which is no directory")
    assert agent_dev("sessions", env=nowhere).returncode == 1
    assert not (tmp_path / "nobody").exists()


@pytest.fixture
def removed(tmp_path: Path) -> tuple[str, ...]:
    """What goes before a command so that it runs in a directory that was removed."""
    (tmp_path / "removed").mkdir()
    return ("sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(tmp_path / "removed"))


@pytest.mark.parametrize("words", [(), ("--ro", "x"), ("-C", "x")], ids=["plain", "--ro", "-C"])
def test_in_a_directory_that_was_removed_nothing_runs(
    agent_dev: AgentDev, removed: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(agent_dev, agent_dev(*words, *NOTHING_RAN, before=removed), "the current directory does not exist any more")


def test_a_word_in_a_directory_that_was_removed_is_one_line(agent_dev: AgentDev, removed: tuple[str, ...]) -> None:
    done = agent_dev("status", before=removed)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "agent-dev: refused: the current directory does not exist any more"


def test_from_a_directory_that_was_removed_another_can_be_named(agent_dev: AgentDev, removed: tuple[str, ...]) -> None:
    done = agent_dev("-C", agent_dev.repo, "--", "pwd", before=removed)
    assert done.stdout == f"{agent_dev.repo}\n"


@pytest.mark.parametrize("words", [("",), ("--", ""), ("run", ""), ("run", "--", "")], ids=" ".join)
def test_an_empty_name_is_refused(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    refused(agent_dev, agent_dev(*words), "the agent's name is empty")
    assert nothing_was_made(agent_dev)


def test_run_takes_a_command_after_two_dashes(agent_dev: AgentDev) -> None:
    assert agent_dev("run", "--", "echo", "--", "ran").stdout == "-- ran\n"


@pytest.mark.parametrize("words", [("run",), ("run", "--"), ("run", "-x"), ("run", "--net", "none", "true")], ids=" ".join)
def test_run_without_a_name_is_a_usage_error(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    done = agent_dev(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 2  # what is wrong, what to do


@pytest.mark.parametrize("option", ["--home", "--ro", "--rw", "--overlay", "--env", "--name", "--net", "--profile", "--config"])
@pytest.mark.parametrize("is_joined", [False, True], ids=["apart", "joined"])
def test_an_empty_value_of_an_option_is_a_usage_error(agent_dev: AgentDev, option: str, *, is_joined: bool) -> None:
    done = agent_dev(*([f"{option}="] if is_joined else [option, ""]), *NOTHING_RAN)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"agent-dev: {option} needs a value, and got an empty one"


# A repository without commits (docs/decisions/0009-no-commits.md)


@pytest.fixture
def fresh(agent_dev: AgentDev, tmp_path: Path) -> Path:
    """A repository in which nobody has committed anything yet."""
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    agent_dev.git("init", "-q", cwd=fresh)
    return fresh


def test_without_commits_changes_are_seen_and_merged(agent_dev: AgentDev, fresh: Path) -> None:
    (fresh / "notes").write_text("one\n")
    (fresh / "staged").write_text("one\n")
    agent_dev.git("add", "staged", cwd=fresh)
    before = tree(fresh)
    agent_dev("--", "sh", "-c", "echo x >new; echo two >>notes; echo two >>staged", cwd=fresh)
    assert tree(fresh) == before
    assert agent_dev.changes(cwd=fresh) == {"new": "added", "notes": "edited", "staged": "edited"}
    diff = agent_dev("diff", cwd=fresh).stdout
    assert all(row in diff for row in ("+++ b/new\n", "+++ b/notes\n@@ -1 +1,2 @@\n one\n+two\n", "+++ b/staged\n"))
    assert agent_dev("merge", "--all", cwd=fresh).returncode == 0
    changed = {name for name, was in tree(fresh).items() if before.get(name) != was}
    assert changed - {"."} == {"new", "notes", "staged"}
    assert (fresh / "staged").read_text() == "one\ntwo\n"


def test_without_commits_what_the_user_changes_meanwhile_is_a_conflict(agent_dev: AgentDev, fresh: Path) -> None:
    (fresh / "notes").write_text("one\n")
    agent_dev("--", "sh", "-c", "echo agent >notes", cwd=fresh)
    (fresh / "notes").write_text("user\n")
    assert agent_dev("merge", "--take", "notes", cwd=fresh).returncode == 1
    assert (fresh / "notes").read_text() == "user\n"


def test_a_repository_without_commits_works(agent_dev: AgentDev, fresh: Path) -> None:
    before = tree(fresh)
    done = agent_dev("--", "sh", "-c", "echo x >new && git add -A && git commit -qm First", cwd=fresh)
    assert done.returncode == 0, done.stderr
    assert tree(fresh) == before
    assert agent_dev.changes(cwd=fresh) == {"new": "added"}
    assert [commit["subject"] for commit in agent_dev.status(cwd=fresh)["commits"]] == ["First"]
    assert agent_dev("commits", cwd=fresh).stdout.splitlines()[0].endswith(" First")


@pytest.mark.parametrize("below", ["", "hooks"])
def test_a_bare_repository_is_refused_by_name(agent_dev: AgentDev, tmp_path: Path, below: str) -> None:
    bare = tmp_path / "shop.git"
    agent_dev.git("init", "-q", "--bare", bare)
    (bare / "hooks").mkdir(exist_ok=True)
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=bare / below), f"{bare} is a bare repository")


def test_an_overlay_of_a_bare_repository_is_refused_by_name(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev.git("init", "-q", "--bare", tmp_path / "shop.git")
    refused(agent_dev, agent_dev("--overlay", tmp_path / "shop.git", *NOTHING_RAN), "shop.git is a bare repository")


def test_a_work_tree_of_a_bare_repository_works(agent_dev: AgentDev, tmp_path: Path) -> None:
    bare, work = tmp_path / "shop.git", tmp_path / "work"
    agent_dev.git("clone", "-q", "--bare", agent_dev.repo, bare)
    agent_dev.git("worktree", "add", "-q", work, cwd=bare)
    before = tree(bare)
    done = agent_dev("--", "sh", "-c", "echo x >new && git add -A && git commit -qm New && git log --format=%s", cwd=work)
    assert done.stdout.splitlines()[0] == "New", done.stderr
    assert agent_dev.changes(cwd=work) == {"new": "added"}
    assert tree(bare) == before


def test_within_the_git_dir_of_a_work_tree_the_root_is_that_work_tree(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "pwd", cwd=agent_dev.repo / ".git").stdout == f"{agent_dev.repo}/.git\n"


def test_a_broken_link_to_a_git_dir_is_refused_by_name(agent_dev: AgentDev, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / ".git").write_text("gitdir: /no/such/dir\n")
    refused(agent_dev, agent_dev(*NOTHING_RAN, cwd=broken), "/no/such/dir")


@pytest.mark.parametrize("directory", ["missing", "file"])
def test_a_directory_that_is_none_is_refused(agent_dev: AgentDev, tmp_path: Path, directory: str) -> None:
    (tmp_path / "file").write_text("")
    refused(agent_dev, agent_dev("-C", tmp_path / directory, *NOTHING_RAN), directory)


# What is shown without a run


def test_what_a_run_would_look_like_is_shown_as_json_too(agent_dev: AgentDev) -> None:
    done = agent_dev("--net", "none", "show", "--json", "sh", "-c", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    rows = {row["what"]: (row["value"], row["origin"]) for row in shown["rows"]}
    assert shown["version"] == 1
    assert rows["command"] == ("sh -c --json", None)
    assert rows["net"] == ("none", "--net")
    assert shown["bwrap"].startswith("env -i ")


def test_the_profiles_are_listed_as_json_too(agent_dev: AgentDev) -> None:
    listed = json.loads(agent_dev("profiles", "--json").stdout)
    assert {"bash", "claude", "codex", "default", "demo"} <= {one["name"] for one in listed["profiles"]}
    assert all(Path(one["path"]).is_file() and one["about"] for one in listed["profiles"])
    assert agent_dev("profiles", "--json", "bash").returncode == 2


def test_the_line_that_is_shown_builds_the_same_sandbox(agent_dev: AgentDev, tmp_path: Path) -> None:
    script = "pwd; id -un; git config user.email; cat sub/app.py"
    line = agent_dev("show", "--", "sh", "-c", script).stdout.splitlines()[-1]
    agent_dev.agent_home.mkdir()
    (tmp_path / "line").write_text(line)
    pasted = subprocess.run(
        ["bash", str(tmp_path / "line")], env=agent_dev.environment(), capture_output=True, text=True, check=False
    )
    assert pasted.stdout == agent_dev("--", "sh", "-c", script).stdout, pasted.stderr
    assert "ada@example.invalid" in pasted.stdout
