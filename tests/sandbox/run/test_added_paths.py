"""Options that give a session more: paths to read, to write, or with an overlay, another agent home, a network."""

import os
import socket
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, tree
from tests.sandbox.policy.refusals import IN_NAMESPACE, refused

# Accepted


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Return a directory outside the repository that contains a file."""
    given = tmp_path / "given"
    given.mkdir()
    (given / "file").write_text("given\n")
    return given


def test_a_read_only_path_cannot_be_written(agent_dev: AgentDev, given: Path) -> None:
    before = tree(given)
    done = agent_dev(
        "--ro", given, "--", "sh", "-c", f"cat {given}/file; touch {given}/new; echo x >{given}/file; rm -f {given}/file"
    )
    assert done.stdout == "given\n"
    assert done.stderr.count("Read-only file system") == 3
    assert tree(given) == before


def test_a_single_file_can_be_mounted_read_only(agent_dev: AgentDev, given: Path) -> None:
    (given / "other").write_text("other")
    done = agent_dev("--ro", given / "file", "--", "ls", given)
    assert done.stdout == "file\n"


@pytest.mark.parametrize(("name", "is_reported"), [(".aws", True), (".npmrc", True), (".cargo", False)])
def test_credentials_that_are_shown_by_name_are_reported(agent_dev: AgentDev, name: str, *, is_reported: bool) -> None:
    path = agent_dev.home / name
    file = path if name == ".npmrc" else path / "credentials"
    file.parent.mkdir(exist_ok=True)
    file.write_text("canary\n")
    done = agent_dev("--ro", path, "--", "cat", file)
    assert (done.stdout == "canary\n", f"--ro {path}: the agent can read its credentials" in done.stderr) == (is_reported,) * 2


def test_a_writable_path_is_written_directly_and_reported(agent_dev: AgentDev, given: Path) -> None:
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
def test_a_path_in_the_users_home_can_be_mounted(agent_dev: AgentDev, option: str) -> None:
    (agent_dev.home / "notes").mkdir()
    (agent_dev.home / "notes/today").write_text("today\n")
    assert agent_dev(option, agent_dev.home / "notes", "--", "cat", agent_dev.home / "notes/today").stdout == "today\n"


@pytest.mark.parametrize("option", ["--ro", "--rw", "--overlay"])
def test_a_path_that_does_not_exist_is_refused(agent_dev: AgentDev, tmp_path: Path, option: str) -> None:
    refused(agent_dev, agent_dev(option, tmp_path / "missing", "--", "echo", "ran"), "does not exist")


def configure(agent_dev: AgentDev, text: str) -> None:
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text)


@pytest.mark.parametrize("key", ["ro", "rw"])
def test_an_optional_path_is_mounted_if_it_exists(agent_dev: AgentDev, given: Path, key: str) -> None:
    configure(agent_dev, f"{key}:\n  - {given}?\n  - {given}\n  - {given}-absent?\n")
    done = agent_dev("--", "sh", "-c", f"cat {given}/file; touch {given}/new; ls -d {given}*")
    assert done.stdout == f"given\n{given}\n", done.stderr
    assert (given / "new").exists() == (key == "rw")


@pytest.mark.parametrize("key", ["ro", "rw"])
def test_an_optional_dangling_symlink_is_left_out(agent_dev: AgentDev, tmp_path: Path, key: str) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    configure(agent_dev, f"{key}:\n  - {tmp_path}/dangling?\n")
    assert agent_dev("--", "echo", "ran").stdout == "ran\n"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("key", ["ro", "rw"])
def test_an_optional_path_is_refused_like_any_other(agent_dev: AgentDev, key: str) -> None:
    configure(agent_dev, f"{key}: ['~/?']\n")
    refused(agent_dev, agent_dev("--", "echo", "ran"), f"--{key}")


def test_an_overlay_is_not_optional(agent_dev: AgentDev, tmp_path: Path) -> None:
    configure(agent_dev, f"overlay: ['{tmp_path}/missing?']\n")
    refused(agent_dev, agent_dev("--", "echo", "ran"), "missing? does not exist (from ")


def test_a_question_mark_of_an_option_is_part_of_the_name(agent_dev: AgentDev, tmp_path: Path) -> None:
    refused(agent_dev, agent_dev("--ro", tmp_path / "missing?", "--", "echo", "ran"), "missing? does not exist (from --ro)")
    (tmp_path / "odd?").mkdir()
    (tmp_path / "odd").mkdir()
    done = agent_dev("--ro", tmp_path / "odd?", "--", "ls", tmp_path)
    assert [name for name in done.stdout.splitlines() if name.startswith("odd")] == ["odd?"]


def test_another_agent_home_is_selected_by_an_option(agent_dev: AgentDev, tmp_path: Path) -> None:
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
def test_the_hosts_loopback_is_reachable_only_with_the_hosts_network(agent_dev: AgentDev, net: str, answer: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert agent_dev.run_python_inside(CONNECT, "--net", net, "--env", f"PORT={port}") == answer


def test_without_a_network_its_own_loopback_works(agent_dev: AgentDev) -> None:
    code = """if True:
        import json, socket
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname(), 5).close()
        print(json.dumps([name for _, name in socket.if_nameindex()]))
    """
    assert agent_dev.run_python_inside(code, "--net", "none") == ["lo"]


# Reported

# For an ordinary user: as root of a user namespace, mount a directory with files of the real root, whose id is unmapped there.
WITH_FOREIGN_FILES = """
mkdir -p upper work && mount -t overlay overlay -o lowerdir=/etc/ssl,upperdir=upper,workdir=work,userxattr given || exit 99
cd given && exec "$@"
"""


def test_a_file_of_another_user_is_reported_before_the_start(agent_dev: AgentDev, given: Path) -> None:
    if os.getuid() == 0:
        os.chown(given / "file", 12345, 12345)
        done = agent_dev("--", "true", cwd=given)
    else:
        before = (*IN_NAMESPACE, "sh", "-c", WITH_FOREIGN_FILES, "sh")
        done = agent_dev("--", "true", cwd=given.parent, before=before)
    assert [line for line in done.stderr.splitlines() if "owned by another user" in line and f"{given}/" in line]
