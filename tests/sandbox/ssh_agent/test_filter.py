"""`share: ssh-agent` with `ssh:`: a real ssh-agent behind the filter, real servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.harness.servers.ssh_world import SshWorld, ssh_world
from tests.harness.servers.sshd import sshd, user

pytestmark = pytest.mark.only_sshd


@pytest.fixture
def world(agent_dev: AgentDev, tmp_path: Path) -> Iterator[SshWorld]:
    with ssh_world(agent_dev, tmp_path) as made:
        yield made


def test_a_login_works_at_the_allowed_host_alone(world: SshWorld) -> None:
    login = f"$SSH -p %d {user()}@127.0.0.1 echo in"
    done = world.run(f"touch new; {login % world.allowed.port}; {login % world.other.port}")
    assert done.stdout == "in\n"
    assert "Permission denied" in done.stderr
    log = world.log()
    assert f"allow log in as {user()} to 127.0.0.1" in log
    assert any(line.startswith("deny a host with the key SHA256:") for line in log)
    assert f"ssh-agent allowed: log in as {user()} to 127.0.0.1" in world.program.do("log")


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_the_host_key_may_be_of_any_kind(world: SshWorld, tmp_path: Path, kind: str) -> None:
    with sshd(tmp_path / "three", world.key, kind) as third:
        (world.program.home / ".ssh/known_hosts").write_text(third.known_hosts)
        world.configure(hosts=[f"{user()}@127.0.0.1:{third.port}"])
        assert world.run(f"$SSH -p {third.port} {user()}@127.0.0.1 echo in").stdout == "in\n"


def test_another_user_than_the_named_one_is_refused(world: SshWorld) -> None:
    world.configure(hosts=[f"nobody-else@127.0.0.1:{world.allowed.port}"])
    done = world.run(f"touch new; $SSH -p {world.allowed.port} {user()}@127.0.0.1 echo in")
    assert (done.stdout, "Permission denied" in done.stderr) == ("", True)
    assert any("a user that no entry" in line for line in world.log())


def test_only_the_named_keys_are_listed(world: SshWorld) -> None:
    assert world.run("ssh-add -l").stdout.split()[2] == "key"
    world.configure(keys=[])
    assert len(world.run("ssh-add -l").stdout.splitlines()) == 2


def test_git_signs_only_if_allowed_and_nothing_else_is_signed(world: SshWorld) -> None:
    script = f"""
git config user.email a@b; git config user.name a; git config gpg.format ssh; git config user.signingkey {world.key}
git commit -q --allow-empty -S -m one && echo signed
echo text > /tmp/file; ssh-keygen -q -Y sign -n file -f {world.key} /tmp/file 2> /dev/null; test -e /tmp/file.sig && echo out
"""
    world.configure(sign_git=True)
    assert world.run(script).stdout == "signed\n"
    world.configure()
    assert world.run(script).stdout == ""


def test_an_unknown_host_or_key_starts_nothing(world: SshWorld) -> None:
    world.configure(hosts=["unknown.example.org"])
    done = world.run("echo started")
    assert (done.returncode, done.stdout) == (125, "")
    assert "share ssh-agent: unknown.example.org has no key in known_hosts" in done.stderr
    world.configure(keys=["/nonexistent.pub"])
    done = world.run("echo started")
    assert (done.returncode, done.stdout, "No such file" in done.stderr) == (125, "", True)


def test_revoked_host_keys_are_not_used(world: SshWorld) -> None:
    file = world.program.home / ".ssh/known_hosts"
    file.write_text(file.read_text() + "@revoked " + world.allowed.known_hosts)
    assert world.run("echo started").returncode == 125


def test_without_rules_the_agent_is_shared_with_a_warning(world: SshWorld) -> None:
    (Path(world.program.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml").write_text("share: [ssh-agent]\n")
    done = world.run("ssh-add -l")
    assert (len(done.stdout.splitlines()), "can log in wherever your keys can" in done.stderr) == (2, True)
