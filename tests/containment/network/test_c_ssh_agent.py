"""CONTAINMENT C: the user's ssh-agent behind the filter."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.servers.ssh_world import SSH, SshWorld, ssh_world
from tests.harness.servers.sshd import user

pytestmark = pytest.mark.only_sshd


@pytest.fixture
def servers(world: Machine, tmp_path: Path) -> Iterator[SshWorld]:
    with ssh_world(world.program, tmp_path) as made:
        yield made


@row(
    "log in to another host with the user's ssh-agent: directly, by a jump, by an agent forwarded to an allowed host",
    "`ssh:`: the filter verifies the host's signature in `session-bind`, against known_hosts; no forwarding, no second host",
)
def test_c90_the_ssh_agent_serves_no_other_host(servers: SshWorld) -> None:
    login = f"{SSH} -p {servers.other.port} {user()}@127.0.0.1 echo out"
    allowed = login.replace(f"-p {servers.other.port}", f"-p {servers.allowed.port}").replace("echo out", "echo in")
    assert servers.run(f"touch new; {allowed}; {login}").stdout == "in\n"
    inner = f"{SSH} -p {servers.other.port} {user()}@127.0.0.1 echo out"
    forwarded = servers.run(f"touch new; $SSH -A -p {servers.allowed.port} {user()}@127.0.0.1 {inner!r}")
    assert "out" not in forwarded.stdout
    assert any("forwarding the agent" in line for line in servers.log())
    jump = f"-o ProxyCommand='{SSH} -W %h:%p -p {servers.allowed.port} {user()}@127.0.0.1'"
    assert "out" not in servers.run(f"$SSH {jump} -p {servers.other.port} {user()}@127.0.0.1 echo out").stdout


_PROTOCOL = """
import json, os, socket, struct, sys
def pack(*parts):
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)
class Agent:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(os.environ["SSH_AUTH_SOCK"])
    def ask(self, message):
        self.socket.sendall(pack(message))
        return self.socket.recv(65536)[4:5].hex()
"""


@row(
    "ask the ssh-agent for signatures of other data, with a forged or missing session binding, or to change its keys",
    "`ssh:`: what is signed must be a login in the bound session, or git's SSHSIG; all other requests are refused",
)
def test_c91_the_ssh_agent_signs_nothing_else(servers: SshWorld) -> None:
    key = servers.key.read_text().split()[1]
    code = f"""
import base64
{_PROTOCOL}
key, host = base64.b64decode({key!r}), base64.b64decode({servers.allowed.host_key.split()[1]!r})
login = pack(b"session") + b"2" + pack(b"root", b"ssh-connection", b"publickey") + b"\\1" + pack(b"ssh-ed25519", key)
def sign(data):
    return b"\\r" + pack(key, data) + bytes(4)
def bind(host, signature, forwarding=0):
    return b"\\x1b" + pack(b"session-bind@openssh.com", host, b"session", signature) + bytes([forwarding])
forged = pack(b"ssh-ed25519", bytes(64))
tries = [[sign(b"anything")], [sign(login)]]
tries += [[one, sign(login)] for one in (bind(host, forged), bind(key, forged), bind(host, forged, 1))]
raw = [b"\\x11", b"\\x13", b"\\x15", b"\\x1b" + pack(b"query"), b"\\x0d", b"\\x0b\\0", b"\\x1b" + bytes(9), os.urandom(2000)]
tries += [[one] for one in raw]
answers = []
for messages in tries:
    agent = Agent()
    answers += [agent.ask(message) for message in messages]
print(json.dumps(answers))
big = Agent()
big.socket.sendall(b"\\xff\\xff\\xff\\xff")
print(json.dumps(big.socket.recv(10).hex()))
"""
    done = servers.run(f"/usr/bin/python3 -I - <<'END'\n{code}\nEND")
    assert done.returncode == 0, done.stderr
    answers, big = map(json.loads, done.stdout.splitlines())
    assert answers == ["05"] * 16
    assert big == ""
