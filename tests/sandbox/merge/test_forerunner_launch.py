"""The launcher leaks nothing, and agents can plant nothing. The section comments describe defects of the forerunner."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.merge.forerunner_world import PATIENCE, PROGRAM, World, picture

PYTHON = "/usr/bin/python3"  # also exists inside
CANARY = "canary-5f1c"


# The launcher had no options of its own: `agent-dev --help` was started as a program in a sandbox.


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("merge", "--help"), ("--version",)])
def test_help_is_not_run_as_a_command(world: World, words: tuple[str, ...]) -> None:
    assert "agent-dev" in world.run(*words).out
    assert not world.state.exists()
    assert not world.aihome.exists()


def test_a_merge_can_be_dry_run_and_done_later(world: World) -> None:
    world.agent("echo new >new")
    before = picture(world.repo)
    assert world.merge("--all", "--dry-run")["applied"] == ["new"]
    assert picture(world.repo) == before
    assert world.merge("--all")["applied"] == ["new"]


def test_a_path_can_be_mounted_and_the_network_disabled(world: World) -> None:
    world.put({"note": "seen\n"}, world.outside)
    script = f"cat {world.outside}/note; ! echo >{world.outside}/note; ls /sys/class/net /proc/self/net 2>/dev/null | head -0"
    assert world.agent(
        f"{script}; ! cat /proc/net/route | grep -q 00000000", "--ro", str(world.outside), "--net", "none"
    ).out == ("seen\n")


# The launcher refused subdirectories, linked worktrees, and an agent home that did not exist.


def test_a_session_starts_from_a_subdirectory(world: World) -> None:
    source = world.repo / "src"
    world.agent(f"test $PWD = {source}; echo new >new; echo new >../top", cwd=source)
    assert set(world.changes(cwd=source)) == {"src/new", "top"}
    world.merge("--take", "new", cwd=source)
    assert set(picture(world.repo)) == {b"README", b"src", b"src/a", b"src/b", b"src/new"}


def test_a_session_works_in_a_linked_worktree(world: World) -> None:
    tree = world.place / "tree"
    world.git("worktree", "add", "-q", "-b", "other", str(tree))
    refs, git_file = world.git("show-ref"), (tree / ".git").read_text()
    script = f"test $PWD = {tree}; test $(git branch --show-current) = other; echo new >new; git add new; git commit -qm new"
    world.agent(script, cwd=tree)
    assert [commit["subject"] for commit in world.status(cwd=tree)["commits"]] == ["new"]
    world.merge_all(cwd=tree)
    assert (tree / "new").read_text() == "new\n"
    assert (world.git("show-ref"), (tree / ".git").read_text()) == (refs, git_file)
    assert world.git("status", "--porcelain", cwd=tree) == "?? new\n"


def test_a_session_works_without_git(world: World) -> None:
    plain = world.place / "plain"
    plain.mkdir()
    world.agent("echo new >new", cwd=plain)
    world.merge_all(cwd=plain)
    assert (plain / "new").read_text() == "new\n"


def test_the_agent_home_is_created_when_missing(world: World) -> None:
    world.agent("echo kept >~/kept")
    assert (world.aihome / "kept").read_text() == "kept\n"
    world.agent("cat ~/kept")


# A repository had one overlay and no lock: the next session silently continued with the changes of the previous one.


def test_a_waiting_session_is_reported_and_its_changes_are_not_visible(world: World) -> None:
    world.agent("echo left >left; rm README", "--name", "earlier")
    after = world.agent("test ! -e left; cat README")
    assert after.out == "hello\n"
    assert "1 unmerged session here: earlier" in after.err


def test_a_session_without_changes_leaves_nothing_and_prints_nothing(world: World) -> None:
    done = world.agent("cat README >/dev/null")
    assert (done.out, done.err) == ("", "")
    world.wait_tidy()
    assert list((world.state / "sessions").iterdir()) == []
    assert world.sessions("--all") == []


# The overlays were in the agent's own home: it could write to its own and to those of other repositories.


def test_an_agent_cannot_write_into_overlays_of_other_repositories(world: World) -> None:
    other = world.new_repo(world.place / "other", {"README": "other\n"})
    world.agent("echo others >others", cwd=other)
    session = next((world.state / "sessions").iterdir())
    before = picture(session, without="")
    places = (world.state / "sessions", world.home / ".overlay" / other.relative_to("/") / "upper", other)
    for place in places:
        world.agent(f"mkdir -p {place} && echo evil >{place}/evil; rm -rf {world.state}/* || true; cat README")
    assert picture(session, without="") == before
    assert set(world.changes(cwd=other)) == {"others"}
    assert set(picture(other)) == {b"README"}


def test_no_upper_directory_is_visible_inside(world: World) -> None:
    with world.inside() as agent:
        agent.do("echo secret-of-the-upper >new")
        upper = next((world.state / "sessions").glob("*/roots/0/upper"))
        assert (upper / "new").exists()
        agent.do(f"test ! -e {world.state}; test ! -e {upper}")
        reported = agent.do(
            "cat /proc/self/mountinfo /proc/1/mountinfo; tr '\\0' '\\n' </proc/1/cmdline; ls -l /proc/1/fd /proc/self/fd"
        )
        assert "/run/agent-dev" in reported
        assert "roots" not in reported


# `npm update -g` ran on the host at each start.


def test_only_git_and_bubblewrap_are_started_on_the_host(world: World) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    trace = world.place / "trace"
    words = ("strace", "-f", "-qq", "-e", "trace=execve,execveat", "-o", str(trace), PROGRAM, "--", "/usr/bin/touch", "new")
    subprocess.run(words, cwd=world.repo, env=world.env, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)
    started = {line.split('"')[1] for line in trace.read_text().splitlines() if '"' in line and "= -1" not in line}
    bwrap = world.env.get("AGENT_DEV_BWRAP") or shutil.which("bwrap", path=world.env["PATH"])
    assert started == {PROGRAM, bwrap, shutil.which("git", path=world.env["PATH"]), "/usr/bin/touch"}
    assert set(world.changes()) == {"new"}


def test_the_programs_of_agent_dev_may_be_missing_in_path(world: World) -> None:
    env = {"PATH": "/usr/bin:/bin"}
    assert "not found" not in world.agent("echo new >new", env=env).err
    world.run("merge", "--all", env=env)
    assert world.read("new") == "new\n"


# The user's own .claude/settings.local.json was hidden by a generated one, and a stub of it was in the upper.


def test_the_agent_sees_the_users_own_settings(world: World) -> None:
    world.put({".claude/settings.local.json": '{"mine": 1}\n'})
    assert world.agent("cat .claude/settings.local.json").out == '{"mine": 1}\n'
    assert world.sessions() == []


# All of /etc was visible, including its secrets.


def test_the_secrets_of_etc_are_not_visible(world: World) -> None:
    names = ("shadow", "gshadow", "sudoers", "ssh", "ssl/private", "NetworkManager", "machine-id", "fstab", "cron.d", "apt")
    world.agent(" && ".join(f"test ! -e /etc/{name}" for name in names))


# Tool directories of the real home were visible with the passwords and tokens in them.

TOKENS = [
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".gem/credentials",
    ".local/share/keyrings/login.keyring",
    ".npm/_auth",
]
TOKENS += [".bundle/config", ".asdf/.netrc", ".rustup/token", ".ssh/id_ed25519", ".netrc", ".npmrc", ".aws/credentials"]
TOOLS = (".cargo/bin/tool", ".local/bin/tool", "bin/tool", ".asdf/shims/tool", ".gem/ruby/3.0/bin/tool", ".rustup/tool")


def test_credentials_in_tool_directories_are_not_readable(world: World) -> None:
    world.put({name: f"{CANARY}\n" for name in TOKENS if name != ".rustup/token"}, world.home)
    world.put(dict.fromkeys(TOOLS, "#!/bin/sh\necho a tool\n"), world.home)
    for name in TOOLS:
        (world.home / name).chmod(0o755)
    script = (
        "for tool in " + " ".join(f"~/{name}" for name in TOOLS) + "; do $tool; done; ! grep -rs canary ~ ~/.cargo ~/.asdf ~/.gem"
    )
    assert world.agent(script).out == "a tool\n" * len(TOOLS)


def test_the_rest_of_the_real_home_is_not_visible(world: World) -> None:
    world.put({"Documents/letter": CANARY, ".bashrc": CANARY, "notes": CANARY}, world.home)
    assert world.agent("ls -A ~").out == ""


# An agent could create startup files that were missing in its home, and they took effect in the next session.


def test_files_planted_in_the_agent_home_affect_nothing_on_the_host(world: World) -> None:
    before = picture(world.home, without="aihome")
    marker = f"touch {world.outside}/executed"
    plants = (".bashrc", ".profile", ".ssh/rc", ".config/agent-dev/config.yaml", ".local/bin/git", ".local/bin/bwrap", "bin/git")
    script = f"git config --global core.fsmonitor '{marker}'; git config --global core.hooksPath ~/bin; echo new >new; "
    script += f"for n in {' '.join(plants)}; do mkdir -p ~/$(dirname $n); echo '{marker}' >~/$n; chmod +x ~/$n; done"
    world.agent(script)
    world.run("merge", "--all")
    path = f"{world.aihome}/.local/bin:{world.aihome}/bin:{world.env['PATH']}"
    world.run("--", "true", env={"PATH": path})
    assert picture(world.home, without="aihome") == before
    assert not (world.outside / "executed").exists()


# Mounts below the repository, and an upper on an overlay, failed with the bare EINVAL of the kernel.


def _mounted(world: World, mount: str, state: Path) -> subprocess.CompletedProcess[str]:
    """Run agent-dev after a mount, in a mount namespace that ends with it."""
    script = f"{mount} && XDG_STATE_HOME={state} exec {PROGRAM} -- true"
    words = ("unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "sh", "-c", script)
    return subprocess.run(words, cwd=world.repo, env=world.env, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_a_mount_below_the_repository_is_named(world: World) -> None:
    done = _mounted(world, "mount -t tmpfs none src", world.place / "state")
    assert done.returncode == 125
    assert f"{world.repo}/src" in done.stderr
    assert not world.state.exists()


def test_a_state_directory_that_cannot_hold_an_upper_is_named(world: World) -> None:
    for name in ("lower", "upper", "work", "merged"):
        (world.place / name).mkdir()
    options = f"lowerdir={world.place}/lower,upperdir={world.place}/upper,workdir={world.place}/work,userxattr"
    done = _mounted(world, f"mount -t overlay overlay -o {options} {world.place}/merged", world.place / "merged")
    assert done.returncode == 125
    assert "the overlay cannot be mounted" in done.stderr
    assert "set `state:` in config.yaml" in done.stderr
    assert not list((world.place / "merged").rglob("sessions/*"))


# The whole network was shared, including localhost and the host's abstract sockets.

CONNECT = """
import socket, sys
def reaches(family, address):
    try:
        socket.socket(family, socket.SOCK_STREAM).connect(address)
    except OSError:
        return 0
    return 1
print(reaches(socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), reaches(socket.AF_UNIX, "\\0" + sys.argv[2]))
"""


def _reached(world: World, net: str) -> str:
    name = f"agent-dev-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as local, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        return world.run("--net", net, "--", PYTHON, "-I", "-c", CONNECT, str(local.getsockname()[1]), name).out


def test_without_network_nothing_of_the_host_is_reachable(world: World) -> None:
    assert _reached(world, "none") == "0 0\n"


def test_abstract_sockets_of_the_host_are_unreachable_with_its_network(world: World) -> None:
    assert _reached(world, "host") == "1 0\n"


# All tokens in the environment were inherited.

VARIABLES = ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "MY_PASSWORD"]
VARIABLES += ["DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "GIT_DIR"]


def test_tokens_in_the_environment_do_not_leak(world: World) -> None:
    env = {name: f"/{CANARY}" for name in VARIABLES if name not in ("LD_PRELOAD", "PYTHONPATH", "GIT_DIR")}
    reported = world.agent("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'", env=env).out
    assert "HOME=" in reported
    assert CANARY not in reported
    assert not {line.partition("=")[0] for line in reported.splitlines()}.intersection(VARIABLES)


def test_a_named_variable_is_passed_through(world: World) -> None:
    assert world.agent('echo "$GITHUB_TOKEN"', "--env", "GITHUB_TOKEN", env={"GITHUB_TOKEN": "wanted"}).out == "wanted\n"


# `git commit` failed with status 128 until the user had created a .gitconfig in the agent home; `git config` and
# `git remote` failed with "Device or resource busy".


def test_git_commit_works_without_a_gitconfig_in_the_agent_home(world: World) -> None:
    reported = world.agent(
        "test ! -e ~/.gitconfig; git commit -q --allow-empty -m x; git log -1 --format='%an <%ae> %cn <%ce>'"
    ).out
    assert reported == "Ann <ann@example.org> Ann <ann@example.org>\n"


def test_the_agents_own_gitconfig_takes_precedence(world: World) -> None:
    script = "git config --global user.name Bot; git commit -q --allow-empty -m x; git log -1 --format='%an <%ae>'"
    assert world.agent(script).out == "Bot <ann@example.org>\n"


def test_git_config_remote_and_branch_work_inside(world: World) -> None:
    before = (world.repo / ".git" / "config").read_bytes()
    world.agent(
        "git remote add origin https://example.org/x.git; git config core.editor ed; git checkout -qb topic; "
        "git branch -q -u main; git stash list; git tag v1; git config --get branch.topic.merge"
    )
    assert (world.repo / ".git" / "config").read_bytes() == before
    assert world.git("branch", "--format=%(refname:short)") == "main\n"
