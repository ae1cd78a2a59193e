"""CONTAINMENT C: sessions that can be detached, their sockets and terminals."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.containment.rows import row
from tests.harness.program import (
    PROGRAM,
    PYTHON,
    AgentDev,
    descriptors_of_sleep,
    open_descriptors,
    processes,
    processes_inside,
    wait_until,
)
from tests.harness.terminal import Shell

# Connects to every socket that it sees, as a client that attaches would, and reports those that answer.
SEARCH = """
import os, socket, stat, sys
found = []
for folder, folders, files in os.walk("/"):
    folders[:] = [one for one in folders if os.path.join(folder, one) not in ("/proc", "/sys")]
    for name in files:
        path = os.path.join(folder, name)
        try:
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                continue
            os.chdir(folder)
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.connect(name)
            connection.settimeout(5)
            connection.send(b"?")
            found.append(connection.recv(10))
        except OSError:
            pass
print("answers", found)
"""


@row("connect to the socket where terminals attach", "the session's directory is not shown; other users are refused")
def test_c50_the_attach_socket_is_not_reachable_from_inside(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "search.py").write_text(SEARCH)
    agent_dev.do("--detach", "--name", "one", "--", "sh", "-c", "exec sleep 600")
    try:
        path = agent_dev.state / agent_dev.session_directories()[0] / "attach"
        assert agent_dev.sessions()[0]["detached"] is True
        assert agent_dev.do("exec", "one", "--", PYTHON, "-I", "search.py") == "answers []\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o077 == 0
    finally:
        agent_dev.do("stop", "one")


@pytest.fixture
def shell(agent_dev: AgentDev) -> Iterator[Shell]:
    """Yield a shell in the repository."""
    with Shell(env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as running:
        yield running


@row("keep a terminal of the user's in a session that can be detached", "the session has a pty; only clients open terminals")
def test_c51_no_terminal_of_the_user_is_open_inside(agent_dev: AgentDev, shell: Shell) -> None:
    own = shell.slave_path()
    shell.send(f"{PROGRAM} --no-merge --detachable --name one -- sh -c 'echo in-$((1+1)); exec sleep 86422'\r")
    shell.wait_for("in-2")
    try:
        pids = wait_until(lambda: processes_inside("sleep\x0086422"), "the agent")
        before = descriptors_of_sleep(pids[-1])
        inside = [target for pid in processes_inside("86422") for target in open_descriptors(pid).values()]
        shell.send(b"\x1cd")
        shell.wait_prompt()
        detached = [target for pid in processes("86422") for target in open_descriptors(pid).values()]
    finally:
        agent_dev.do("stop", "one")
    assert sorted(before) == [0, 1, 2]
    assert own not in inside
    assert own not in detached  # nor in the launcher


AS_ANOTHER_USER = """
import os, socket, sys
os.chdir(sys.argv[1])
os.setuid(65534)
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect("attach")
try:
    connection.send(b"a")
    print(connection.recv(64))
except ConnectionError:
    print(b"")
"""


@pytest.mark.only_root
def test_another_user_is_refused_at_the_attach_socket(agent_dev: AgentDev) -> None:
    agent_dev.do("--detach", "--name", "one", "--", "sh", "-c", "exec sleep 600")
    try:
        folder = agent_dev.state / agent_dev.session_directories()[0]
        (folder / "attach").chmod(0o777)
        folder.chmod(0o755)  # neither is reachable otherwise
        command = [PYTHON, "-c", AS_ANOTHER_USER, str(folder)]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, env=agent_dev.env)
    finally:
        agent_dev.do("stop", "one")
    assert shown.stdout == "b''\n", shown.stderr
