"""Hosts for ssh on this machine: an sshd each on the loopback address, with a home directory of its own.

With `has_users`, which needs root, each host is another user. These exist only in the mount namespace of its sshd, which has an
/etc/passwd of its own, and sees this checkout at a path that every user can read.
"""

import os
import shlex
import signal
import site
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.program import PASSED_THROUGH, PATIENCE, PROGRAM, AgentDev, children, wait_until

SSHD = "/usr/sbin/sshd"
CHECKOUT = Path(__file__).parents[3]
_FIRST_UID = 61001
_ACCOUNTS = ("passwd", "group", "shadow")
_PROGRAM = """#!{python}
import sys
sys.path[:0] = {paths!r}
from agent_dev.cli.main import main
main()
"""


@dataclass
class SshHosts:
    """Running hosts. `bin`: a directory with an `ssh` that knows their names."""

    folder: Path
    bin: Path
    daemons: dict[str, "subprocess.Popen[bytes]"]
    program: Path = PROGRAM

    def home(self, name: str) -> Path:
        """Return the home directory on a host."""
        return self.folder / name

    def use(self, agent_dev: AgentDev, config: str = "") -> None:
        """Let a user reach these hosts."""
        agent_dev.env["PATH"] = f"{self.bin}:{agent_dev.env['PATH']}"
        folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(config if "worker:" in config else f"worker: {self.program}\n{config}")

    def worker(self, name: str) -> AgentDev:
        """Return the program as it runs on a host."""
        found = AgentDev(self.home(name), self.home(name))
        found.env = {k: v for k, v in found.env.items() if not k.startswith("XDG_")}
        found.state = self.home(name) / ".local/state/agent-dev"
        return found

    def kill(self, name: str) -> None:
        """Kill a host: its sshd and everything that it started."""
        daemon = self.daemons.pop(name)
        for pid in reversed(_descendants(daemon.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        daemon.wait(PATIENCE)


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            found += children(one)
        except FileNotFoundError:
            continue
    return found


@contextmanager
def ssh_hosts(folder: Path, names: tuple[str, ...], *, has_users: bool = False) -> Iterator[SshHosts]:
    """Run hosts while the body runs. `has_users`: every user must be able to enter `folder`."""
    for key in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    hosts = SshHosts(folder, folder / "bin", {})
    hosts.bin.mkdir()
    if has_users:
        hosts.program = _write_accounts(folder, names)
    known = "Host *\nHostName 127.0.0.1\nIdentitiesOnly yes\nStrictHostKeyChecking no\nLogLevel ERROR\n"
    config = f"{known}IdentityFile {folder}/key\nUserKnownHostsFile {folder}/known\n"
    try:
        for uid, name in enumerate(names, _FIRST_UID):
            port = _free_port()
            config += f"Host {name}\nPort {port}\n" + (f"User {name}\n" if has_users else "")
            hosts.daemons[name] = _start(folder, name, port, uid if has_users else os.geteuid())
        (folder / "ssh_config").write_text(config)
        (hosts.bin / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/ssh_config "$@"\n')
        (hosts.bin / "ssh").chmod(0o755)
        yield hosts
    finally:
        for name in tuple(hosts.daemons):
            hosts.kill(name)


def _write_accounts(folder: Path, names: tuple[str, ...]) -> Path:
    """Write the accounts of this machine with one more for each host; return the program that these users run."""
    for kind in _ACCOUNTS:
        path = folder / kind
        path.write_bytes(Path("/etc", kind).read_bytes())
        with path.open("a") as file:
            for uid, name in enumerate(names, _FIRST_UID):
                row = {"passwd": f"x:{uid}:{uid}::{folder}/{name}:/bin/sh", "group": f"x:{uid}:", "shadow": "*:1::::::"}[kind]
                file.write(f"{name}:{row}\n")
        path.chmod(0o600 if kind == "shadow" else 0o644)
    places = [folder / "checkout", folder / "packages"]
    for place in places:
        place.mkdir()
    program = folder / "agent-dev"
    program.write_text(_PROGRAM.format(python=Path(sys.executable).resolve(), paths=list(map(str, places))))
    program.chmod(0o755)
    return program


def _own_accounts(folder: Path) -> tuple[str, ...]:
    """Return the start of a command that sees the users' accounts and programs."""
    pairs = [(folder / kind, Path("/etc", kind)) for kind in _ACCOUNTS]
    pairs += [(CHECKOUT, folder / "checkout"), (Path(site.getsitepackages()[0]), folder / "packages")]
    mounts = [shlex.join(("mount", "--bind", *map(str, pair))) for pair in pairs]
    return ("unshare", "--mount", "sh", "-ec", "\n".join((*mounts, 'exec "$@"')), "sh")


def _start(folder: Path, name: str, port: int, uid: int) -> "subprocess.Popen[bytes]":
    home = folder / name
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = worker\nemail = worker@example.invalid\n")
    is_other_user = uid != os.geteuid()
    if is_other_user:
        os.chown(home, uid, uid)
    variables = {"HOME": str(home), **{one: os.environ[one] for one in PASSED_THROUGH if one in os.environ}}
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {folder}/key.pub",
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
        "SetEnv " + " ".join(f'"{key}={value}"' for key, value in variables.items()),
    ]
    (folder / f"sshd_{name}").write_text("\n".join(lines) + "\n")
    with (folder / f"sshd_{name}.log").open("wb") as log:
        before = _own_accounts(folder) if is_other_user else ()
        argv = [*before, SSHD, "-D", "-e", "-f", f"{folder}/sshd_{name}"]
        daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log)
    wait_until(lambda: _listens(port) or daemon.poll() is not None, f"sshd {name}")
    assert daemon.poll() is None, (folder / f"sshd_{name}.log").read_text()
    return daemon


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
