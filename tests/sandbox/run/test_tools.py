"""Commands, tool directories, credentials and package caches of the real home, as seen inside."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_dev.sandbox.plan import INSIDE_UID, SYSTEM_PATH
from tests.harness.program import AgentDev, tree
from tests.sandbox.waiting import command

CREDENTIALS = (
    ".aws/credentials",
    ".cargo/credentials.toml",
    ".config/gh/hosts.yml",
    ".config/pip/pip.conf",
    ".docker/config.json",
    ".gem/credentials",
    ".git-credentials",
    ".gradle/gradle.properties",
    ".kube/config",
    ".m2/settings.xml",
    ".netrc",
    ".npmrc",
    ".nvm/.npmrc",
    ".asdf/.netrc",
    ".pypirc",
    ".yarnrc.yml",
)
TOOLS = (".local/bin", ".cargo/bin", ".nvm", ".asdf", ".pyenv", ".rustup", "go/bin", ".npm-global/bin", ".gem/ruby")
CACHES = (".cache/pip", ".npm/_cacache", ".cargo/registry", "go/pkg/mod", ".m2/repository", ".gradle/caches", ".cache/uv")


def read_inside(agent_dev: AgentDev, path: str) -> str:
    """Return the content of a file of the home inside, or the name of the error."""
    return str(
        agent_dev.run_python_inside(
            """if True:
                import errno, json, os
                try:
                    print(json.dumps(open(os.path.expanduser(os.environ["FILE"])).read()))
                except OSError as error:
                    print(json.dumps(errno.errorcode[error.errno]))
            """,
            "--env",
            f"FILE=~/{path}",
        )
    )


# Order of PATH


def test_commands_of_the_agent_home_come_first(agent_dev: AgentDev) -> None:
    command(agent_dev.agent_home / ".local/agent/bin/which-one", "agent home")
    command(agent_dev.home / ".local/bin/which-one", "tool directory")
    assert agent_dev("--", "which-one").stdout == "agent home\n"


def test_commands_of_a_tool_directory_precede_the_systems(agent_dev: AgentDev) -> None:
    command(agent_dev.home / ".local/bin/id", "tool directory")
    assert agent_dev("--", "id").stdout == "tool directory\n"


def versions(home: Path, *names: str) -> None:
    for name in names:
        command(home / ".nvm/versions/node" / name / "bin/node", name)


def in_path(agent_dev: AgentDev) -> list[str]:
    """Return the directories of nvm in the PATH inside, relative to its versions."""
    path = agent_dev("--", "printenv", "PATH").stdout.strip()
    start = f"{agent_dev.home}/.nvm/versions/node/"
    return [folder.removeprefix(start) for folder in path.split(":") if "nvm" in folder or "*" in folder]


def test_the_newest_of_several_versions_is_in_the_path(agent_dev: AgentDev) -> None:
    versions(agent_dev.home, "v9.11.2", "v22.3.0", "v22.10.1", "v8.0.0")
    (agent_dev.home / ".nvm/versions/node/v99.0.0").mkdir()  # has no programs
    assert in_path(agent_dev) == ["v22.10.1/bin"]
    assert agent_dev("--", "node").stdout == "v22.10.1\n"
    assert agent_dev("--", "sh", "-c", "node").stdout == "v22.10.1\n"


def test_the_version_is_read_from_the_mounted_home(agent_dev: AgentDev) -> None:
    versions(agent_dev.home, "v30.0.0")
    versions(agent_dev.agent_home, "v20.0.0")  # the real home's versions do not hide it
    assert in_path(agent_dev) == ["v20.0.0/bin"]
    assert agent_dev("--", "node").stdout == "v20.0.0\n"


@pytest.mark.parametrize("make", [lambda _: None, lambda home: (home / ".nvm/versions/node").mkdir(parents=True)])
def test_without_any_version_the_path_has_no_entry(agent_dev: AgentDev, make: Callable[[Path], object]) -> None:
    make(agent_dev.home)
    assert in_path(agent_dev) == []


def test_the_source_of_a_version_in_the_path_is_shown(agent_dev: AgentDev) -> None:
    versions(agent_dev.home, "v22.3.0")
    rows = [
        row for row in agent_dev("show", "--all", "--", "true").stdout.splitlines() if row.startswith("path ") and "nvm" in row
    ]
    assert len(rows) == 1
    assert "node/v22.3.0/bin" in rows[0]
    assert "default.yaml:" in rows[0]


def places(agent_dev: AgentDev) -> list[str]:
    """Return the directories that precede those of the system in the PATH inside."""
    path = agent_dev("--", "printenv", "PATH").stdout.strip().split(":")
    return [folder.removeprefix(f"{agent_dev.home}/") for folder in path[: path.index(SYSTEM_PATH[0])]]


def test_missing_tool_directories_come_after_the_systems(agent_dev: AgentDev) -> None:
    assert places(agent_dev) == []
    path = agent_dev("--", "printenv", "PATH").stdout.strip().split(":")
    last = path[path.index(SYSTEM_PATH[-1]) + 1 :]
    names = (".local/agent/bin", ".local/bin", "bin", ".cargo/bin", ".pyenv/shims", "go/bin")
    assert {f"{agent_dev.home}/{name}" for name in names} <= set(last)
    assert len(path) == len(set(path))


def test_a_tool_installed_while_an_agent_runs_is_found_by_name(agent_dev: AgentDev) -> None:
    script = "mkdir -p ~/.cargo/bin; printf '#!/bin/sh\necho built' >~/.cargo/bin/crate; chmod +x ~/.cargo/bin/crate; crate"
    assert agent_dev("--", "sh", "-c", script).stdout == "built\n"


def test_existing_directories_come_first_in_their_order(agent_dev: AgentDev) -> None:
    (agent_dev.home / ".pyenv/shims").mkdir(parents=True)  # mounted as a tool directory
    (agent_dev.agent_home / ".asdf/shims").mkdir(parents=True)
    (agent_dev.agent_home / ".local/agent/bin").mkdir(parents=True)
    (agent_dev.agent_home / ".bun").mkdir()
    (agent_dev.agent_home / ".bun/bin").write_text("no directory")
    (agent_dev.home / ".deno/bin").mkdir(parents=True)
    assert places(agent_dev) == [".local/agent/bin", ".asdf/shims", ".pyenv/shims", ".deno/bin"]


def test_a_symlink_in_a_tool_path_is_resolved_inside(agent_dev: AgentDev) -> None:
    versions = agent_dev.agent_home / ".sdkman/candidates/java"
    command(versions / "17/bin/java", "seventeen")
    (versions / "current").symlink_to(f"{agent_dev.home}/.sdkman/candidates/java/17")  # the target as it is named inside
    assert ".sdkman/candidates/java/current/bin" in places(agent_dev)
    assert agent_dev("--", "sh", "-c", "java").stdout == "seventeen\n"


def test_a_directory_given_twice_is_in_the_path_once_with_its_source(agent_dev: AgentDev) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("path: [~/.deno/bin]\n")
    for name in (".deno/bin", ".bun/bin"):
        (agent_dev.agent_home / name).mkdir(parents=True)
    assert places(agent_dev).count(".deno/bin") == 1
    assert places(agent_dev)[0] == ".deno/bin"
    rows = [row for row in agent_dev("show", "--all", "--", "true").stdout.splitlines() if row.startswith("path ")]
    assert [("config.yaml:" in row, "default.yaml:" in row) for row in rows if "deno" in row] == [(True, False)]
    assert [("config.yaml:" in row, "default.yaml:" in row) for row in rows if "bun" in row] == [(False, True)]


def test_commands_of_the_system_come_last(agent_dev: AgentDev) -> None:
    assert agent_dev("--", "id", "-u").stdout == f"{os.getuid() or INSIDE_UID}\n"


def test_a_command_inside_resolves_others_in_the_same_order(agent_dev: AgentDev) -> None:
    command(agent_dev.agent_home / ".local/agent/bin/first", "agent home")
    command(agent_dev.home / ".local/bin/first", "tool directory")
    command(agent_dev.home / ".local/bin/id", "tool directory")
    assert agent_dev("--", "sh", "-c", "first; id").stdout == "agent home\ntool directory\n"


def test_a_command_of_the_real_home_that_is_not_mounted_is_not_found(agent_dev: AgentDev) -> None:
    command(agent_dev.home / "secret-place/tool", "outside")
    done = agent_dev("--", "tool", env={"PATH": f"{agent_dev.home}/secret-place:/usr/bin:/bin"})
    assert done.returncode == 127
    assert done.stdout == ""


# Tool directories


def test_tool_directories_are_mounted_read_only(agent_dev: AgentDev) -> None:
    for place in TOOLS:
        command(agent_dev.home / place / "tool", place)
    before = {place: tree(agent_dev.home / place) for place in TOOLS}
    script = "for d in {}; do $d/tool; touch $d/new; echo evil >$d/tool; rm -f $d/tool; chmod 0 $d/tool; done"
    done = agent_dev("--", "sh", "-c", script.format(" ".join(f"~/{place}" for place in TOOLS)))
    assert done.stdout.split() == list(TOOLS)
    assert done.stderr.count("Read-only file system") == 4 * len(TOOLS)
    assert {place: tree(agent_dev.home / place) for place in TOOLS} == before


def test_a_tool_directory_does_not_hide_the_agent_homes_own(agent_dev: AgentDev) -> None:
    command(agent_dev.home / ".local/bin/theirs", "tool directory")
    command(agent_dev.agent_home / ".local/bin/own", "agent home")
    assert agent_dev("--", "own").stdout == "agent home\n"


def test_siblings_of_a_tool_directory_are_not_mounted(agent_dev: AgentDev) -> None:
    command(agent_dev.home / ".local/bin/tool", "tool directory")
    (agent_dev.home / ".local/share/keyrings").mkdir(parents=True)
    (agent_dev.home / ".local/share/keyrings/login.keyring").write_text("canary")
    assert read_inside(agent_dev, ".local/share/keyrings/login.keyring") == "ENOENT"


def test_credential_files_of_the_real_home_are_absent_or_empty(agent_dev: AgentDev) -> None:
    for place in (*TOOLS, *CACHES):
        (agent_dev.home / place).mkdir(parents=True, exist_ok=True)
    for name in CREDENTIALS:
        (agent_dev.home / name).parent.mkdir(parents=True, exist_ok=True)
        (agent_dev.home / name).write_text("canary")
    assert agent_dev("--", "cat", *(agent_dev.home / name for name in CREDENTIALS)).stdout == ""
    assert "canary" not in agent_dev("--", "grep", "-rs", "canary", agent_dev.home).stdout
    assert {(agent_dev.home / name).read_text() for name in CREDENTIALS} == {"canary"}


@pytest.mark.parametrize("name", [".nvm/.npmrc", ".asdf/.netrc"])
def test_a_credential_file_in_a_tool_directory_is_an_empty_file(agent_dev: AgentDev, name: str) -> None:
    (agent_dev.home / name).parent.mkdir(parents=True, exist_ok=True)
    (agent_dev.home / name).write_text("canary")
    assert read_inside(agent_dev, name) == ""


# Package caches


def test_package_caches_are_writable_inside_and_unchanged_outside(agent_dev: AgentDev) -> None:
    for place in CACHES:
        (agent_dev.home / place / "wheels").mkdir(parents=True)
        (agent_dev.home / place / "wheels/old").write_text(f"{place}\n")
    before = {place: tree(agent_dev.home / place) for place in CACHES}
    script = "for d in {}; do cd $d && cat wheels/old && echo x >new && echo y >wheels/old && rm -r wheels && ls; done"
    done = agent_dev("--", "sh", "-c", script.format(" ".join(f"~/{place}" for place in CACHES)))
    assert done.stdout.split() == [word for place in CACHES for word in (place, "new")], done.stderr
    assert {place: tree(agent_dev.home / place) for place in CACHES} == before


def test_a_package_cache_drops_the_agents_additions(agent_dev: AgentDev) -> None:
    cache = agent_dev.home / ".cache/pip"
    cache.mkdir(parents=True)
    agent_dev("--", "touch", cache / "new")
    assert agent_dev("--", "ls", "-A", cache).stdout == ""


def test_writing_into_a_package_cache_is_no_change(agent_dev: AgentDev) -> None:
    cache = agent_dev.home / ".cache/pip"
    cache.mkdir(parents=True)
    done = agent_dev("--", "touch", cache / "new")
    assert (done.returncode, done.stderr) == (0, "")
    assert agent_dev.sessions(everywhere=True) == []
