"""Collect the absolute paths that a sandbox looks up and the commands that are denied, for `agent-dev learn`."""

import os
from marshal import dumps

from agent_dev.linux import syscalls

_MAX_PATH, _USUAL_PATH = 4096, 512  # bytes
_MAX_PATHS, _MAX_COMMANDS = 100_000, 1000  # both come from the agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.supervisor.notify import Listener, LookupCall


class Findings:
    """Collects distinct paths and commands, and writes them to a file at the end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._memory = syscalls.ProcessMemory()
        self._paths: dict[bytes, None] = {}
        self._commands: dict[tuple[str, ...], None] = {}

    def handle(self, call: "LookupCall", listener: "Listener") -> None:
        """Note the path of a call, and let the call continue."""
        try:
            path = self._memory.read_short_string(call.pid, call.address, _USUAL_PATH)
            path = self._memory.read_string(call.pid, call.address, _MAX_PATH) if path is None else path
        except OSError:
            path = b""  # the call fails by itself
        listener.allow(call.id)
        self.add_path(path)

    def add_path(self, path: bytes) -> None:
        """Note a path, if it is absolute."""
        if path.startswith(b"/") and len(self._paths) < _MAX_PATHS:
            self._paths[path] = None

    def clear(self) -> None:
        """Forget the paths so far."""
        self._paths.clear()

    def add_denied(self, argv: tuple[str, ...]) -> None:
        """Note a command that was denied."""
        if len(self._commands) < _MAX_COMMANDS:
            self._commands[argv] = None

    def write(self) -> None:
        """Write the file."""
        with open(self._path, "wb") as file:
            file.write(dumps((tuple(map(os.fsdecode, self._paths)), tuple(self._commands))))
