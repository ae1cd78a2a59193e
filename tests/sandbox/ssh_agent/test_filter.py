"""`share: ssh-agent` with `ssh:`: a real ssh-agent behind the filter, real servers."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import AgentDev
from tests.harness.servers.sshd import Sshd, make_key, ssh_agent, sshd, user

_SSH = "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


@dataclass
class World:
    """Two servers, of which one is allowed; a key for both, and another one that is not to be used."""

    program: AgentDev
    allowed: Sshd
    other: Sshd
    agent: Path
    key: Path
    second_key: Path

    def configure(self, **values: Any) -> None:
        folder = Path(self.program.env["XDG_CONFIG_HOME"]) / "agent-dev"
        folder.mkdir(parents=True, exist_ok=True)
        rules = {"hosts": [f"127.0.0.1:{self.allowed.port}"], "keys": [str(self.key)], **values}
        (folder / "config.yaml").write_text(json.dumps({"share": ["ssh-agent"], "ssh": rules}) + "\n")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script inside; `$SSH` is a command for the allowed server."""
        text = f"SSH='{_SSH}'\n{script}"
        return self.program("--no-merge", "--ro", self.key, "--", "sh", "-c", text, env={"SSH_AUTH_SOCK": str(self.agent)})

    def log(self) -> list[str]:
        rows = json.loads(self.program.do("log", "--json"))["events"]
        return [f"{row['decision']} {row['text']}" for row in rows if row["event"] == "ssh"]


@pytest.fixture
def world(agent_dev: AgentDev, tmp_path: Path) -> Iterator[World]:
    key, second = make_key(tmp_path / "key"), make_key(tmp_path / "second")
    with (
        sshd(tmp_path / "one", key) as one,
        sshd(tmp_path / "two", key, "ecdsa") as two,
        ssh_agent(tmp_path, key, second) as agent,
    ):
        folder = agent_dev.home / ".ssh"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "known_hosts").write_text(one.known_hosts + two.known_hosts)
        made = World(agent_dev, one, two, agent, key, second)
        made.configure()
        yield made


def test_a_login_works_at_the_allowed_host_alone(world: World) -> None:
    login = f"$SSH -p %d {user()}@127.0.0.1 echo in"
    done = world.run(f"touch new; {login % world.allowed.port}; {login % world.other.port}")
    assert done.stdout == "in\n"
    assert "Permission denied" in done.stderr
    log = world.log()
    assert f"allow log in as {user()} to 127.0.0.1" in log
    assert any(line.startswith("deny a host whose key SHA256:") for line in log)
    assert f"ssh-agent allowed: log in as {user()} to 127.0.0.1" in world.program.do("log")


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_the_host_key_may_be_of_any_kind(world: World, tmp_path: Path, kind: str) -> None:
    with sshd(tmp_path / "three", world.key, kind) as third:
        (world.program.home / ".ssh/known_hosts").write_text(third.known_hosts)
        world.configure(hosts=[f"{user()}@127.0.0.1:{third.port}"])
        assert world.run(f"$SSH -p {third.port} {user()}@127.0.0.1 echo in").stdout == "in\n"


def test_another_user_than_the_named_one_is_refused(world: World) -> None:
    world.configure(hosts=[f"nobody-else@127.0.0.1:{world.allowed.port}"])
    done = world.run(f"touch new; $SSH -p {world.allowed.port} {user()}@127.0.0.1 echo in")
    assert (done.stdout, "Permission denied" in done.stderr) == ("", True)
    assert any("a user that no entry" in line for line in world.log())


def test_only_the_named_keys_are_listed(world: World) -> None:
    assert world.run("ssh-add -l").stdout.split()[2] == "key"
    world.configure(keys=[])
    assert len(world.run("ssh-add -l").stdout.splitlines()) == 2


def test_a_forwarded_agent_and_a_jump_host_get_no_signature(world: World) -> None:
    """A jump needs the other host; a forwarded agent is used on the allowed one, for the other."""
    inner = f"{_SSH} -p {world.other.port} {user()}@127.0.0.1 echo out"
    forwarded = world.run(f"touch new; $SSH -A -p {world.allowed.port} {user()}@127.0.0.1 {inner!r}")
    assert "out" not in forwarded.stdout
    assert any("forwarding the agent" in line for line in world.log())
    jump = f"-o ProxyCommand='{_SSH} -W %h:%p -p {world.allowed.port} {user()}@127.0.0.1'"
    assert "out" not in world.run(f"$SSH {jump} -p {world.other.port} {user()}@127.0.0.1 echo out").stdout


def test_git_signs_only_if_allowed_and_nothing_else_is_signed(world: World) -> None:
    script = f"""
git config user.email a@b; git config user.name a; git config gpg.format ssh; git config user.signingkey {world.key}
git commit -q --allow-empty -S -m one && echo signed
echo text > /tmp/file; ssh-keygen -q -Y sign -n file -f {world.key} /tmp/file 2> /dev/null; test -e /tmp/file.sig && echo out
"""
    world.configure(sign_git=True)
    assert world.run(script).stdout == "signed\n"
    world.configure()
    assert world.run(script).stdout == ""


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


def test_forged_bindings_and_raw_requests_are_refused(world: World) -> None:
    key = world.key.read_text().split()[1]
    code = f"""
import base64
{_PROTOCOL}
key, host = base64.b64decode({key!r}), base64.b64decode({world.allowed.host_key.split()[1]!r})
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
    done = world.run(f"/usr/bin/python3 -I - <<'END'\n{code}\nEND")
    assert done.returncode == 0, done.stderr
    answers, big = map(json.loads, done.stdout.splitlines())
    assert answers == ["05"] * 16
    assert big == ""


def test_an_unknown_host_or_key_starts_nothing(world: World) -> None:
    world.configure(hosts=["unknown.example.org"])
    done = world.run("echo started")
    assert (done.returncode, done.stdout) == (125, "")
    assert "share ssh-agent: unknown.example.org has no key in known_hosts" in done.stderr
    world.configure(keys=["/nonexistent.pub"])
    done = world.run("echo started")
    assert (done.returncode, done.stdout, "No such file" in done.stderr) == (125, "", True)


def test_revoked_host_keys_are_not_used(world: World) -> None:
    file = world.program.home / ".ssh/known_hosts"
    file.write_text(file.read_text() + "@revoked " + world.allowed.known_hosts)
    assert world.run("echo started").returncode == 125


def test_without_rules_the_agent_is_shared_with_a_warning(world: World) -> None:
    (Path(world.program.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml").write_text("share: [ssh-agent]\n")
    done = world.run("ssh-add -l")
    assert (len(done.stdout.splitlines()), "can log in wherever your keys can" in done.stderr) == (2, True)
