"""`--share display` with X11: a client like libxcb, which tries the abstract socket first, reaches the server."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.program import AgentDev

CLIENT = """
import errno, os, socket
path = "/tmp/.X11-unix/X" + os.environ["DISPLAY"][1:]
client = socket.socket(socket.AF_UNIX)
try:
    client.connect("\\0" + path)
except OSError as error:
    print(errno.errorcode[error.errno])
    client.connect(path)
print(open(os.environ["XAUTHORITY"], "rb").read()[:2].hex())
"""


@pytest.fixture
def display() -> Iterator[str]:
    """Serve an X display, with an abstract socket, too; yield its name."""
    folder = Path("/tmp/.X11-unix")
    folder.mkdir(mode=0o1777, exist_ok=True)
    number = 1000 + os.getpid()
    path = folder / f"X{number}"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(str(path))
        abstract.bind(f"\0{path}")
        server.listen()
        abstract.listen()
        yield f":{number}"
    path.unlink()


def test_a_client_reaches_the_server_and_has_its_key(agent_dev: AgentDev, display: str) -> None:
    keys = agent_dev.home / ".Xauthority"
    parts = (b"host", display[1:].encode(), b"MIT-MAGIC-COOKIE-1", b"0123456789abcdef")
    keys.write_bytes(bytes((1, 0)) + b"".join(len(part).to_bytes(2) + part for part in parts))
    done = agent_dev("--share", "display", "--", "timeout", "5", "python3", "-c", CLIENT, env={"DISPLAY": display})
    assert done.stdout.splitlines() == ["ECONNREFUSED", "ffff"], done.stderr
