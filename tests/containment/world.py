"""A user's machine with something worth taking on every side, and one hostile program in the sandbox that tries it all."""

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


class World:
    """A home and a repository of the test's own, and the program there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = lay_out_home(folder)
        self.repo = lay_out_repository(self.home)
        self.program = AgentDev(self.home, self.repo)
        self.probe = folder / "probe.py"
        shutil.copy(PROBE, self.probe)  # a checkout may lie where only root can look

    def words(self, target: dict[str, Any], *options: str | Path) -> list[str | Path]:
        """Return the words that run the probe inside on a target: `{"section": …, more of what it must know}`."""
        return [*options, "--ro", self.probe, "--env", f"PROBE={json.dumps(target)}", "--", PYTHON, "-I", self.probe]

    def tried(self, target: dict[str, Any], *options: str | Path, env: dict[str, str] | None = None) -> dict[str, Any]:
        """Run the probe inside; return what each attempt came to."""
        done = self.program(*self.words(target, *options), env=env, timeout=120)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


class Services:
    """What listens and lies about on the host: sockets of every kind, FIFOs, shared memory. `close` takes it away."""

    def __init__(self, world: World) -> None:
        self.name = f"agent-dev-test-{token_hex(6)}"
        self.variables: dict[str, str] = {}
        self.paths: dict[str, str] = {}  # what it stands for → where its socket is
        self._open: list[socket.socket] = []
        self._made: list[str] = []
        self.port = self._keep(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
        self.abstract = [f"\0{self.name}", f"\0/tmp/.X11-unix/{self.name}", f"\0/run/{self.name}/dbus"]
        for name in self.abstract:
            self._bind(name)
        self._sockets(world)
        self._shown(world)
        self.memory = int(token_hex(3), 16) | 0x40000000
        self._shared = LIBC.shmget(self.memory, 4096, 0o1600)  # IPC_CREAT

    def _keep(self, made: socket.socket) -> socket.socket:
        self._open.append(made)
        return made

    def _bind(self, name: str) -> None:
        made = self._keep(socket.socket(socket.AF_UNIX))
        made.bind(name)
        made.listen()

    def _sockets(self, world: World) -> None:
        runtime = world.folder / "run"
        runtime.mkdir()
        places = {"bus": "DBUS_SESSION_BUS_ADDRESS", "wayland-0": "WAYLAND_DISPLAY", "agent.sock": "SSH_AUTH_SOCK"}
        places |= {"docker.sock": "DOCKER_HOST", "gpg": "GPG_AGENT_INFO", "pipewire-0": "PIPEWIRE_REMOTE"}
        for file, variable in places.items():
            self.paths[variable] = str(runtime / file)
            self.variables[variable] = f"unix:path={runtime / file}" if "DBUS" in variable else str(runtime / file)
        self.variables |= {"XDG_RUNTIME_DIR": str(runtime), "DISPLAY": ":77", "XAUTHORITY": str(world.home / ".Xauthority")}
        self.paths |= {"home": str(world.home / "s"), "/tmp": f"/tmp/{self.name}", "/var/tmp": f"/var/tmp/{self.name}"}
        if os.access("/run", os.W_OK):
            self.paths["/run"] = f"/run/{self.name}"
        for path in self.paths.values():
            self._bind(path)
            self._made.append(path)

    def _shown(self, world: World) -> None:
        """A socket and a FIFO in a directory that is shown inside."""
        tools = world.home / ".local/bin"
        tools.mkdir(parents=True)
        self.shown, self.fifo = str(tools / "s"), str(tools / "f")
        self._bind(self.shown)
        os.mkfifo(self.fifo)

    def close(self) -> None:
        """Take everything away that lies outside the world's folder."""
        for made in self._open:
            made.close()
        for path in self._made:
            os.unlink(path)
        LIBC.shmctl(self._shared, 0, None)  # IPC_RMID
