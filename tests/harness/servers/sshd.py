"""A real sshd on 127.0.0.1 and a real ssh-agent, for one test."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.program import wait_until

_PATH = "/usr/sbin:/usr/bin:/bin"
_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowAgentForwarding yes
AllowTcpForwarding yes
"""


def make_key(path: Path, kind: str = "ed25519") -> Path:
    """Make a key pair without a passphrase; return the path of the public key."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", path.name, "-f", path], check=True)
    return path.with_suffix(".pub")


@dataclass(frozen=True, slots=True)
class Sshd:
    """A server: its port, and the text of its public host key."""

    port: int
    host_key: str

    @property
    def known_hosts(self) -> str:
        """Return its line of known_hosts."""
        return f"[127.0.0.1]:{self.port} {self.host_key}\n"


def user() -> str:
    """Return the user who logs in: the one that runs the tests."""
    return pwd.getpwuid(os.getuid()).pw_name


@contextmanager
def sshd(folder: Path, public_key: Path, kind: str = "ed25519") -> Iterator[Sshd]:
    """Run a server in which a key logs in, with its files in a new folder."""
    folder.mkdir()
    host_key = make_key(folder / "host_key", kind)
    shutil.copy(public_key, folder / "authorized_keys")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "config"
    config.write_text(_CONFIG.format(port=port, folder=folder))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    program = shutil.which("sshd", path=_PATH)
    assert program, "openssh-server is not installed"
    with subprocess.Popen([program, "-D", "-e", "-f", config], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _answers(port), "sshd listens")
            yield Sshd(port, " ".join(host_key.read_text().split()[:2]))
        finally:
            process.kill()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as one:
            return one.recv(4) == b"SSH-"
    except OSError:
        return False


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0


@contextmanager
def ssh_agent(folder: Path, *keys: Path) -> Iterator[Path]:
    """Run an ssh-agent that holds keys (of public keys, the private ones); yield its socket."""
    path = folder / "agent.sock"
    with subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _listens(path), "the agent listens")
            for key in keys:
                env = {**os.environ, "SSH_AUTH_SOCK": str(path)}
                subprocess.run(["ssh-add", "-q", key.with_suffix("")], env=env, check=True)
            yield path
        finally:
            process.kill()
