"""One sandbox with rules of every kind in the small internet, for the tests of a module that need no other settings."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import lay_out_home, lay_out_repository
from tests.harness.inside_python import InsidePython, inside_python
from tests.harness.internet import CLIENT, LOCAL_PORT, PORT, in_internet
from tests.harness.program import AgentDev

API = "api.example.org"
RULES = (
    f"{API}:80,443,8080,{PORT}",
    f"six.example.org:{PORT}",
    "files.example.org",
    f"93.184.215.0/24:{PORT}",
    f"[2606:2800:21f::16]:{PORT}",
    f"corp.example.org:{PORT} private",
    f"localhost:{LOCAL_PORT} as {PORT}",
)


@dataclass(frozen=True, slots=True)
class RuledSandbox:
    """The sandbox, and a Unix socket of the host that a rule names."""

    python: InsidePython
    socket: Path

    def run(self, code: str) -> Any:
        """Run code inside that has `ask`; return its result as JSON."""
        return self.python.run(f"{CLIENT}\n{code}")

    def ask(self, *calls: tuple[object, ...]) -> list[str]:
        """Connect to hosts inside; return the answers."""
        found: list[str] = self.run(f"print(json.dumps(ask_all(*{calls!r})))")
        return found


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuledSandbox]:
    """Yield the sandbox."""
    folder = tmp_path_factory.mktemp("machine")
    home = lay_out_home(folder)
    program = AgentDev(home, lay_out_repository(home))
    path = folder / "service"
    words = [word for rule in (*RULES, f"unix:{path}") for word in ("--allow", rule)]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        with inside_python(program, "--net", "allow", *words, before=in_internet()) as running:
            yield RuledSandbox(running, path)
