"""The machine of a user, with secrets and services, and a hostile program in the sandbox that tries to reach them."""

import ctypes
import json
import os
import shutil
import socket
from pathlib import Path
from secrets import token_hex
from typing import Any

from tests.conftest import lay_out_home, lay_out_repository
from tests.harness.program import PYTHON, AgentDev

LIBC = ctypes.CDLL(None, use_errno=True)
PROBE = Path(__file__).with_name("probe.py")


class Machine:
    """A home and a repository for a test, and the program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = lay_out_home(folder)
        self.repo = lay_out_repository(self.home)
        self.program = AgentDev(self.home, self.repo)
        self.probe = folder / "probe.py"
        shutil.copy(PROBE, self.probe)  # an ordinary user may not be able to read the checkout

    def probe_command(self, target: dict[str, Any], *options: str | Path) -> list[str | Path]:
        """Return the arguments that run the probe inside; `target` contains the sections to run and the facts that they need."""
        return [*options, "--ro", self.probe, "--env", f"PROBE={json.dumps(target)}", "--", PYTHON, "-I", self.probe]

    def run_probe(self, target: dict[str, Any], *options: str | Path, env: dict[str, str] | None = None) -> dict[str, Any]:
        """Run the probe inside; return the result of each attempt."""
        done = self.program(*self.probe_command(target, *options), env=env, timeout=120)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


class Services:
    """Services of the host: sockets of every kind, FIFOs, shared memory. `close` removes them."""

    def __init__(self, world: Machine) -> None:
        self.name = f"agent-dev-test-{token_hex(6)}"
        self.variables: dict[str, str] = {}
        self.paths: dict[str, str] = {}  # variable or directory → path of a socket
        self._open: list[socket.socket] = []
        self._created: list[str] = []
        self.port = self._keep(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
        self.abstract = [f"\0{self.name}", f"\0/tmp/.X11-unix/{self.name}", f"\0/run/{self.name}/dbus"]
        for name in self.abstract:
            self._bind(name)
        self._create_sockets(world)
        self._create_mounted(world)
        self.memory = int(token_hex(3), 16) | 0x40000000
        self._shared = LIBC.shmget(self.memory, 4096, 0o1600)  # IPC_CREAT

    def _keep(self, opened: socket.socket) -> socket.socket:
        self._open.append(opened)
        return opened

    def _bind(self, name: str) -> None:
        server = self._keep(socket.socket(socket.AF_UNIX))
        server.bind(name)
        server.listen()

    def _create_sockets(self, world: Machine) -> None:
        runtime = world.folder / "run"
        runtime.mkdir()
        variables = {"bus": "DBUS_SESSION_BUS_ADDRESS", "wayland-0": "WAYLAND_DISPLAY", "agent.sock": "SSH_AUTH_SOCK"}
        variables |= {"docker.sock": "DOCKER_HOST", "gpg": "GPG_AGENT_INFO", "pipewire-0": "PIPEWIRE_REMOTE"}
        for file, variable in variables.items():
            self.paths[variable] = str(runtime / file)
            self.variables[variable] = f"unix:path={runtime / file}" if "DBUS" in variable else str(runtime / file)
        self.variables |= {"XDG_RUNTIME_DIR": str(runtime), "DISPLAY": ":77", "XAUTHORITY": str(world.home / ".Xauthority")}
        self.paths |= {"home": str(world.home / "s"), "/tmp": f"/tmp/{self.name}", "/var/tmp": f"/var/tmp/{self.name}"}
        if os.access("/run", os.W_OK):
            self.paths["/run"] = f"/run/{self.name}"
        for path in self.paths.values():
            self._bind(path)
            self._created.append(path)

    def _create_mounted(self, world: Machine) -> None:
        """Create a socket and a FIFO in a directory that will be mounted inside."""
        tools = world.home / ".local/bin"
        tools.mkdir(parents=True)
        self.shown, self.fifo = str(tools / "s"), str(tools / "f")
        self._bind(self.shown)
        os.mkfifo(self.fifo)

    def close(self) -> None:
        """Remove all services outside the machine's directory."""
        for opened in self._open:
            opened.close()
        for path in self._created:
            os.unlink(path)
        LIBC.shmctl(self._shared, 0, None)  # IPC_RMID
