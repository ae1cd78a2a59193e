"""Published ports: servers of the agent that this machine reaches."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev, children, wait_until

SERVER = """
import socket, sys, threading
open("new", "w").close()  # a session without changes is not kept
def serve(family, address, port):
    one = socket.create_server((address, port), family=family)
    print("listens", flush=True)
    while True:
        client, _ = one.accept()
        client.sendall(b"hello from " + address.encode())
        client.close()
for address, port in zip(sys.argv[1::2], sys.argv[2::2]):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    threading.Thread(target=serve, args=(family, address, int(port)), daemon=True).start()
sys.stdin.read()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def ask(port: int, address: str = "127.0.0.1") -> str:
    try:
        with socket.create_connection((address, port), 20) as one:
            return one.recv(100).decode()
    except OSError:
        return ""


@contextmanager
def serving(program: AgentDev, *options: str, servers: tuple[str | int, ...]) -> Iterator[subprocess.Popen[str]]:
    """Run servers inside, given as address and port each, until the end."""
    words = (*options, "--no-merge", "--", PYTHON, "-I", "-c", SERVER, *map(str, servers))
    with program.start(*words) as process:
        assert process.stdout
        for _ in servers[::2]:
            assert process.stdout.readline() == "listens\n"
        yield process
        if process.poll() is None:
            process.communicate(timeout=60)


@pytest.mark.parametrize("net", ["none", "allow", "ask"])
def test_this_machine_reaches_published_ports_which_are_logged(agent_dev: AgentDev, net: str) -> None:
    four, six, none = free_port(), free_port(), free_port()
    words = [word for port, inside in ((four, 3000), (six, 3001), (none, 3002)) for word in ("--publish", f"{port}:{inside}")]
    with serving(agent_dev, "--net", net, *words, servers=("127.0.0.1", 3000, "::1", 3001)):
        assert [ask(port) for port in (four, six, none)] == ["hello from 127.0.0.1", "hello from ::1", ""]
        listed = [(row["inside"], row["outside"]) for row in agent_dev.status()["published"]]
        assert listed == [(3000, four), (3001, six), (3002, none)]
    assert [ask(port) for port in (four, six)] == ["", ""]
    rows = json.loads(agent_dev.do("log", "--network", "--json"))["connections"]  # in the order of their ends
    first = next(row for row in rows if row["port"] == 3000)
    assert (first["name"], first["port"], first["published"], first["received"]) == ("localhost", 3000, four, 20)
    assert f"in     localhost:3000  from port {four}" in agent_dev.do("log", "--network")


def test_auto_publishes_listening_ports_and_prints_where(agent_dev: AgentDev) -> None:
    port = free_port()
    with serving(agent_dev, "--net", "none", "--publish", "auto", "--name", "web", servers=("127.0.0.1", port)) as process:
        assert wait_until(lambda: ask(port), "it is published") == "hello from 127.0.0.1"
        assert process.stderr
        assert process.stderr.readline() == f"agent-dev: published port {port} inside: http://web.localhost:{port}\n"
    assert ask(port) == ""


def test_a_port_in_use_is_reported_before_anything_starts(agent_dev: AgentDev, tmp_path: Path) -> None:
    marker = tmp_path / "rw" / "started"
    marker.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = ("--net", "allow", "--rw", marker.parent)
        done = agent_dev(*words, "--publish", f"{port}:3000", "--", "touch", marker)
        assert (done.returncode, marker.exists()) == (125, False)
        assert f"publish: port {port} of 127.0.0.1 is in use\n" in done.stderr
        done = agent_dev(*words, "--publish", f"{port}:3000?", "--", "touch", marker)
        assert (done.returncode, marker.exists()) == (0, True)
    assert agent_dev.sessions() == []


def opener_of(launcher: int) -> int:
    """Return the launcher's child in another network namespace that is not the sandbox's own process; 0 for none."""
    own = os.stat("/proc/self/ns/net").st_ino
    for pid in children(launcher):
        try:
            if (
                os.stat(f"/proc/{pid}/ns/net").st_ino != own
                and os.stat(f"/proc/{pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
            ):
                return pid
        except OSError:
            continue
    return 0


@pytest.mark.parametrize("victim", ["launcher", "gateway", "opener"])
def test_after_a_kill_no_published_port_leads_inside(agent_dev: AgentDev, victim: str) -> None:
    port = free_port()
    with serving(agent_dev, "--net", "allow", "--publish", f"{port}:3000", servers=("127.0.0.1", 3000)) as process:
        assert ask(port)
        opener = opener_of(process.pid)
        holders = [pid for pid in children(process.pid) if _listens(pid, port)]
        assert opener
        assert len(holders) == 1
        os.kill({"launcher": process.pid, "gateway": holders[0], "opener": opener}[victim], signal.SIGKILL)
        wait_until(lambda: ask(port) == "", "nothing answers")
        if victim != "opener":
            wait_until(lambda: _is_gone(opener), "the opener has ended")
            wait_until(lambda: _is_gone(holders[0]), "the gateway has ended")
            with socket.create_server(("127.0.0.1", port)):
                pass


def _listens(pid: int, port: int) -> bool:
    wanted = {
        row.split()[9] for row in Path("/proc/net/tcp").read_text().splitlines()[1:] if row.split()[1] == f"0100007F:{port:04X}"
    }
    try:
        links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return False
    return any(f"socket:[{inode}]" in links for inode in wanted)


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_publishing_without_effect_or_to_other_machines_is_reported(agent_dev: AgentDev) -> None:
    done = agent_dev("--net", "host", "--publish", "3000", "--", "true")
    assert (done.returncode, "publish 3000: no effect with net: host" in done.stderr) == (0, True)
    done = agent_dev("--net", "none", "--publish", f"0.0.0.0:{free_port()}:3000", "--", "true")
    assert (done.returncode, "other machines can connect" in done.stderr) == (0, True)
    assert "published" not in agent_dev("--net", "host", "--publish", "3000?", "--", "true").stderr


def test_a_repository_publishes_only_trusted_ports(agent_dev: AgentDev) -> None:
    def shown() -> list[str]:
        return [line.split()[1] for line in agent_dev("show", "--", "true").stdout.splitlines() if line.startswith("publish ")]

    (agent_dev.repo / ".agent-dev.yaml").write_text("publish: [3000]\n")
    assert shown() == []
    agent_dev.do("trust", "--yes")
    assert shown() == ["3000"]
