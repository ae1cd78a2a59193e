"""Files, processes, mounts and names of the machine that are visible inside; nothing else exists there."""

import os
from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev
from tests.sandbox.sandbox.inside_facts import NAME

# System directories that are mounted whole; their content is the distribution's.
WHOLE = {"/usr", "/opt", "/nix", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin"}

LINKS = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

DEVICES = {"full", "null", "ptmx", "random", "tty", "urandom", "zero", "fd", "core", "stdin", "stdout", "stderr", "pts", "shm"}

# All entries of /etc that may be visible: none contains a secret, or more about this machine than a program needs.
ETC = {
    "alternatives",
    "bash.bashrc",
    "crypto-policies",
    "fonts",
    "gai.conf",
    "gitconfig",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki",
    "profile",
    "protocols",
    "resolv.conf",
    "services",
    "ssl",
    "timezone",
}


def chain(path: Path) -> set[str]:
    return {str(path), *map(str, path.parents)} - {"/"}


def test_only_listed_host_paths_are_visible(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, os
        skipped = {"/proc", "/usr", "/opt", "/nix", "/gnu", *os.environ["SKIPPED"].split(":")}
        found = []
        for place, folders, files in os.walk("/"):
            found += [os.path.join(place, name) for name in folders + files]
            folders[:] = [name for name in folders if os.path.join(place, name) not in skipped]
        print(json.dumps(found))
    """
    repo, home = agent_dev.repo, agent_dev.home
    object_store = "/run/agent-dev/git/0/objects"
    skipped = ":".join((str(repo), *(f"/etc/{name}" for name in ETC), object_store))
    found = set(agent_dev.run_python_inside(code, "--env", f"SKIPPED={skipped}"))
    expected = {path for path in WHOLE if os.path.exists(path)}
    expected |= {"/dev", "/etc", "/proc", "/run", "/run/agent-dev/gitconfig", "/run/agent-dev/npmrc", "/tmp", "/var", "/var/tmp"}
    expected |= (
        {f"/dev/{name}" for name in (*DEVICES, "pts/ptmx")}
        | {"/run/agent-dev/gitconfig"}
        | chain(Path(object_store))
        | chain(repo)
        | chain(home)
    )
    in_etc = {path for path in found if path.startswith("/etc/")}
    assert found - in_etc == expected
    assert {path.removeprefix("/etc/") for path in in_etc if "/etc/java-" not in path} <= ETC


def test_only_system_directories_are_symlinks_in_the_root(agent_dev: AgentDev) -> None:
    code = "import json, os; print(json.dumps([e.path for e in os.scandir('/') if e.is_symlink()]))"
    assert set(agent_dev.run_python_inside(code)) == {path for path in LINKS if os.path.islink(path)}


def test_only_the_sandboxs_own_processes_are_visible(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, os
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        print(json.dumps({pid: open(f"/proc/{pid}/cmdline").read().split("\\0")[0] for pid in pids}))
    """
    assert agent_dev.run_python_inside(code) == {"1": "bwrap", "2": PYTHON}


@pytest.mark.parametrize("place", ["home/.ssh/id_ed25519", "home/.aws/credentials", "home/src/other/secret", "srv/data/secret"])
def test_a_secret_elsewhere_on_the_host_does_not_exist_inside(agent_dev: AgentDev, tmp_path: Path, place: str) -> None:
    secret = tmp_path / place
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("canary\n")
    code = """if True:
        import json, os, sys
        path = os.environ["SECRET"]
        try:
            open(path).close()
            print(json.dumps("readable"))
        except OSError as error:
            print(json.dumps([error.strerror, os.path.exists(os.path.dirname(path))]))
    """
    assert agent_dev.run_python_inside(code, "--env", f"SECRET={secret}") == ["No such file or directory", False]


@pytest.mark.parametrize("place", ["state", "cache", "config", "home/.gitconfig", "home/aihome"])
def test_files_of_agent_dev_itself_are_not_visible(agent_dev: AgentDev, tmp_path: Path, place: str) -> None:
    (tmp_path / "config").mkdir()
    agent_dev("--", "true")
    assert (tmp_path / place).exists()
    done = agent_dev("--", "ls", "-d", tmp_path / place)
    assert done.returncode == 2
    assert done.stdout == ""


def test_the_mount_table_names_no_overlay_directories(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "cat", "/proc/mounts")
    assert str(agent_dev.repo) in done.stdout
    assert str(agent_dev.state) not in done.stdout


def test_other_users_of_the_host_have_no_names_inside(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "cut", "-d:", "-f1", "/etc/passwd")
    assert set(done.stdout.split()) == {"root", "nobody", NAME}
