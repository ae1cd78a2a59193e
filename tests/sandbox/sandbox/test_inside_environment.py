"""The environment and the descriptors of the processes inside."""

import json
import os
from pathlib import Path
from typing import Any

from tests.harness.program import PYTHON, AgentDev

# Variables that bubblewrap and the launcher set, in addition to those passed through from the user's environment.
VARIABLES = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "AGENT_DEV_SESSION", "LANG", "TERM"}
VARIABLES |= {"NPM_CONFIG_GLOBALCONFIG", "PIP_BREAK_SYSTEM_PACKAGES"}

SECRETS = {
    name: f"canary-in-{name}"
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "ANTHROPIC_API_KEY",
        "GITHUB_TOKEN",
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "KUBECONFIG",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "TMUX",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "BASH_ENV",
    )
}


# Environment


def names(printed: str) -> set[str]:
    return {line.split("=", 1)[0] for line in printed.split("\0") if line}


def test_the_environment_has_the_allow_list_and_declared_variables(agent_dev: AgentDev) -> None:
    words = ("--env", "DECLARED=yes", "--env", "TAKEN", "--env", "NOT_THERE")
    done = agent_dev(*words, "--", "/usr/bin/env", "-0", env={**SECRETS, "TAKEN": "along"})
    assert names(done.stdout) == VARIABLES | {"DECLARED", "TAKEN"}
    assert done.stderr == "agent-dev: --env NOT_THERE: not set in your environment, so not passed through\n"
    assert {"DECLARED=yes", "TAKEN=along"} <= set(done.stdout.split("\0"))


def test_no_process_inside_shows_the_users_environment(agent_dev: AgentDev) -> None:
    code = """if True:
        import glob, json
        files = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + ["/proc/self/environ"]
        print(json.dumps({path: open(path, errors="replace").read() for path in files}))
    """
    found: dict[str, str] = agent_dev.run_python_inside(code, env=SECRETS)
    assert {"/proc/1/environ", "/proc/2/environ", "/proc/1/cmdline"} <= set(found)
    assert [path for path, text in found.items() if "canary" in text] == []


def test_declared_variables_are_not_visible_in_the_first_process(agent_dev: AgentDev) -> None:
    done = agent_dev("--env", "DECLARED=canary", "--", "cat", "/proc/1/environ", "/proc/1/cmdline")
    assert "bwrap" in done.stdout
    assert "canary" not in done.stdout


def test_language_time_zone_and_colour_variables_are_passed_through(agent_dev: AgentDev) -> None:
    env = {"LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "COLORTERM": "truecolor"}
    assert agent_dev("--", "printenv", *env, env=env).stdout.splitlines() == list(env.values())


def test_variables_about_the_terminals_features_are_passed_through(agent_dev: AgentDev) -> None:
    env = {
        "TERM_PROGRAM": "vscode", "TERM_PROGRAM_VERSION": "1.9", "VTE_VERSION": "7200", "WT_SESSION": "1-2",
        "SSH_TTY": "/dev/pts/3",
    }  # fmt: skip
    assert agent_dev("--", "printenv", *env, env=env).stdout.splitlines() == list(env.values())


PROXIES = ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]


def test_proxy_variables_are_passed_through(agent_dev: AgentDev) -> None:
    env = {name: f"http://{name}.invalid:3128" for name in PROXIES}
    printed = agent_dev("--", "/usr/bin/env", env=env).stdout.splitlines()
    assert {f"{name}={value}" for name, value in env.items()} <= set(printed)


def test_show_labels_proxy_variables(agent_dev: AgentDev) -> None:
    env = {name: f"http://{name}.invalid:3128" for name in PROXIES}
    rows = [row for row in agent_dev("show", "--all", "bash", env=env).stdout.splitlines() if "a proxy)" in row]
    assert [name for name, value in env.items() if not any(f"{name}={value}" in row for row in rows)] == []


# Descriptors

DESCRIPTORS = """if True:
    import json, os, stat
    found = {}
    for pid in os.environ["PIDS"].split():
        folder = f"/proc/{pid}/fd"
        mine = os.open(folder, os.O_RDONLY)
        for name in os.listdir(mine):
            try:
                link, mode = os.readlink(name, dir_fd=mine), os.stat(name, dir_fd=mine).st_mode
            except FileNotFoundError:
                continue
            found[f"{pid}:{name}"] = [link, stat.S_ISDIR(mode)]
        os.close(mine)
    print(json.dumps(found))
"""


def descriptors(agent_dev: AgentDev, pids: str, **keywords: Any) -> dict[str, tuple[str, bool]]:
    found: dict[str, tuple[str, bool]] = agent_dev.run_python_inside(DESCRIPTORS, "--env", f"PIDS={pids}", **keywords)
    return found


def test_the_agent_has_only_the_three_standard_descriptors(agent_dev: AgentDev) -> None:
    code = "import json, os; print(json.dumps(sorted(os.listdir('/proc/self/fd'), key=int)))"
    assert agent_dev.run_python_inside(code) == ["0", "1", "2", "3"]  # 3 is the directory that listdir reads


def test_no_descriptor_inside_is_a_directory_or_names_a_host_path(agent_dev: AgentDev) -> None:
    found = descriptors(agent_dev, "1 self")
    assert "1:0" in found
    own = {"/proc/2/fd"}  # the directory that the test itself reads
    assert [link for link, is_folder in found.values() if is_folder and link not in own] == []
    allowed = ("pipe:", "anon_inode:", "/memfd:", "/dev/null")
    assert [link for link, _ in found.values() if not link.startswith(allowed) and link not in own] == []


def test_descriptors_left_open_by_the_caller_are_not_inherited(agent_dev: AgentDev, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(folder, True)
    try:
        words = ["--env", "PIDS=1 self", "--", PYTHON, "-I", "-c", DESCRIPTORS]
        with agent_dev.start(*words, pass_fds=(folder,)) as process:
            out, shown = process.communicate(timeout=30)
    finally:
        os.close(folder)
    assert process.returncode == 0, shown
    found: dict[str, tuple[str, bool]] = json.loads(out)
    assert [link for link, _ in found.values() if str(tmp_path) in link] == []
