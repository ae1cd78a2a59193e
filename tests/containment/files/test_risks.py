"""CONTAINMENT G: files that run later are listed as risky and not applied by `--all`, nor are ignored files."""

import json

import pytest

from tests.containment.rows import row
from tests.harness.program import AgentDev
from tests.harness.risk.planted import PATHS

IGNORED = "*\n"


def planted(group: str) -> list[str]:
    """Return the paths of a row, without those in a .git: they are never merged and are not listed as changes."""
    paths = next(paths for name, paths in PATHS.items() if name.split()[0] == group)
    return [path for path in paths.split() if ".git" not in path.split("/")]


def plant(agent_dev: AgentDev, paths: list[str]) -> None:
    """Have an agent write these files, with one byte each."""
    script = 'umask 022; for path; do mkdir -p "$(dirname "./$path")"; printf x >"./$path"; done'
    done = agent_dev("--", "sh", "-euc", script, "sh", *paths)
    assert done.returncode == 0, done.stderr


def check(agent_dev: AgentDev, paths: list[str]) -> None:
    """Check that each path is listed with a risk, and that `--all` leaves it out."""
    listed = {change["path"]: change for change in agent_dev.status()["changes"]}
    assert [path for path in paths if not listed[path]["risks"]] == []
    check_left(agent_dev, paths)


def check_left(agent_dev: AgentDev, paths: list[str]) -> None:
    """Check that `--all` leaves out each path."""
    done = agent_dev("merge", "--all", "--json")
    left = {row["path"] for row in json.loads(done.stdout)["skipped"]}
    assert left >= set(paths)
    assert [path for path in paths if (agent_dev.repo / path).exists()] == []


def check_row(agent_dev: AgentDev, group: str) -> None:
    """Check a row, also in a repository that ignores everything: risk rules do not apply there, but `--all` leaves it out."""
    paths = [path for path in planted(group) if path != ".gitignore"]
    plant(agent_dev, paths)
    check(agent_dev, paths)
    (agent_dev.repo / ".gitignore").write_text(IGNORED)
    check_left(agent_dev, paths)


@row(
    "instructions for agents: CLAUDE.md, AGENTS.md, rules, commands, skills",
    "risk rules mark them; `merge --all` leaves them out, as it does everything that git ignores",
)
def test_g01_agent_instructions_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G1")


@row("settings of agents: hooks, servers, permissions, addresses", "marked by risk rules, left out by `merge --all`")
def test_g02_agent_settings_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G2")


@row("settings of editors: tasks, extensions, local start-up files", "marked by risk rules, left out by `merge --all`")
def test_g03_editor_settings_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G3")


@row("start-up files of shells and tools, where the repository is a home", "marked by risk rules, left out by `merge --all`")
def test_g05_startup_files_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G5")


@row("manifests, hooks, settings and programs of JavaScript", "marked by risk rules, left out by `merge --all`")
def test_g06_javascript_install_scripts_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G6")


def test_g06_a_lock_file_with_another_registry_is_a_risk(agent_dev: AgentDev) -> None:
    lock = '{"packages": {"a": {"resolved": "https://npm.example/a.tgz"}}}\n'
    (agent_dev.repo / "package-lock.json").write_text(lock)
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "Lock")
    agent_dev("--", "sed", "-i", "s/npm.example/x.example/", "package-lock.json")
    assert [risk["rule"] for risk in agent_dev.status()["changes"][0]["risks"]] == ["package-lock"]


def test_g06_a_lock_file_with_another_version_is_no_risk(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "package-lock.json").write_text('{"packages": {"a": {"resolved": "https://npm.example/a-1.tgz"}}}\n')
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "Lock")
    agent_dev("--", "sed", "-i", "s/a-1/a-2/", "package-lock.json")
    assert agent_dev.status()["changes"][0]["risks"] == []


def test_g06_a_new_package_script_is_a_risk(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "package.json").write_text('{"version": "1", "scripts": {"test": "jest"}}\n')
    agent_dev.git("add", "-A")
    agent_dev.git("commit", "-qm", "Manifest")
    agent_dev("--", "sed", "-i", 's/"test"/"postinstall": "node x.js", "test"/', "package.json")
    assert [risk["rule"] for risk in agent_dev.status()["changes"][0]["risks"]] == ["package-manifest", "install-script"]


@row(
    "what Python runs automatically: setup, conftest, sitecustomize, .pth, settings, bytecode",
    "marked by risk rules, left out by `merge --all`",
)
def test_g07_python_startup_code_is_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G7")


@row("what cargo runs: build scripts, runners, toolchains", "marked by risk rules, left out by `merge --all`")
def test_g08_rust_build_code_is_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G8")


@row(
    "build files of make, CMake, Gradle, Maven, Bazel, Ruby, PHP, Go, .NET and more",
    "marked by risk rules, left out by `merge --all`",
)
def test_g09_build_files_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G9")


@row("CI workflows, commit hooks, code owners", "marked by risk rules, left out by `merge --all`")
def test_g10_ci_workflows_and_hooks_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G10")


@row("containers, virtual machines, infrastructure", "marked by risk rules, left out by `merge --all`")
def test_g11_container_and_server_files_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G11")


@row("programs, libraries, archives, pickles, by name, mode and first bytes", "marked by risk rules, left out by `merge --all`")
def test_g13_programs_are_recognized_by_their_names(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G13")


PROGRAMS = {
    "x bit": "printf x >data.txt; chmod +x data.txt",
    "shebang": "printf '#!/bin/sh\\n' >data.txt",
    "ELF": "printf '\\177ELF\\002\\001\\001\\000' >data.txt",
    "PE": "printf 'MZ\\220\\000\\003' >data.txt",
    "Mach-O": "printf '\\317\\372\\355\\376\\014' >data.txt",
    "a link outside": "ln -s /etc/passwd data.txt",
    "a link outside by way of another": "mkdir -p a/b; ln -s ../.. a/b/c; ln -s a/b/c/../secret data.txt",
    "text turned round": "printf 'a\\342\\200\\256b' >data.txt",
}


@pytest.mark.parametrize("script", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_g13_programs_are_recognized_by_their_content(agent_dev: AgentDev, script: str) -> None:
    agent_dev("--", "sh", "-euc", f"umask 022; {script}")
    check(agent_dev, ["data.txt"])


@row(
    "git settings in the work tree: attributes, submodules, ignored files",
    "marked by risk rules, left out by `merge --all`; nothing below a .git is merged",
)
def test_g14_git_settings_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G14")


def test_g14_nothing_below_a_git_directory_is_merged(agent_dev: AgentDev) -> None:
    script = "echo x >.git/hooks/post-checkout; git config core.fsmonitor ./x; mkdir -p vendor/.git; echo x >vendor/.git/config"
    agent_dev("--", "sh", "-euc", script)
    agent_dev("merge", "--all", "--include-risky")
    assert not (agent_dev.repo / ".git/hooks/post-checkout").exists()
    assert not (agent_dev.repo / "vendor/.git/config").exists()
    assert "fsmonitor" not in (agent_dev.repo / ".git/config").read_text()


@row("settings of agent-dev itself", "marked, and ignored until the user trusts exactly this version")
def test_g15_settings_of_agent_dev_are_a_risk(agent_dev: AgentDev) -> None:
    check_row(agent_dev, "G15")


def test_case_and_hidden_characters_hide_nothing(agent_dev: AgentDev) -> None:
    paths = ["Claude.MD", ".VSCODE/tasks.json", "pack\u200bage.json", "MAKEFILE"]
    plant(agent_dev, paths)
    check(agent_dev, paths)


def test_rules_of_the_user_apply(agent_dev: AgentDev) -> None:
    rules = agent_dev.home.parent / "config/agent-dev/risks.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text("payments:\n  why: Money.\n  paths: [src/pay/]\n")
    plant(agent_dev, ["src/pay/a.py", "src/b.py"])
    risks = {change["path"]: [risk["rule"] for risk in change["risks"]] for change in agent_dev.status()["changes"]}
    assert risks == {"src/pay/a.py": ["payments"], "src/b.py": []}


def test_an_invalid_rule_is_reported_with_its_line_and_loses_no_work(agent_dev: AgentDev) -> None:
    plant(agent_dev, ["a.txt"])
    rules = agent_dev.home.parent / "config/agent-dev/risks.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text("payments:\n  why: Money.\n  path: [src/pay/]\n")
    done = agent_dev("status")
    assert done.returncode == 2
    assert f"{rules}:3: payments.path: unknown key (did you mean paths?)" in done.stderr
    rules.unlink()
    assert agent_dev.changes() == {"a.txt": "added"}
