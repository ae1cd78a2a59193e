"""CONTAINMENT B: two sessions that share an agent home."""

import pytest

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PYTHON, wait_until

LISTEN = """
import os, socket
one = socket.socket(socket.AF_UNIX)
one.bind(os.path.expanduser("~/talk"))
one.listen()
connection, _ = one.accept()
"""
CONNECT = """
import os, socket
one = socket.socket(socket.AF_UNIX)
one.connect(os.path.expanduser("~/talk"))
print("connected")
"""


def inside(code: str, net: str, *more: str) -> tuple[str, ...]:
    return ("--net", net, "--no-merge", *more, "--", PYTHON, "-c", code)


@pytest.mark.parametrize(("first", "second"), [("host", "none"), ("none", "host")])
@row(
    "connect from a session without a network to one with it, through a socket in their agent home",
    "sessions with and without a network cannot use one home at the same time: the second is refused",
)
def test_b25_sessions_with_and_without_a_network_share_no_home(world: Machine, first: str, second: str) -> None:
    place = world.program.agent_home / "talk"
    with world.program.start(*inside(LISTEN, first)) as process:
        wait_until(place.exists, "it listens")
        refused = world.program(*inside(CONNECT, second))
        assert (refused.returncode, refused.stdout) == (125, "")
        assert "the agent home" in refused.stderr
        assert "--home" in refused.stderr
        apart = world.program(*inside("print(1)", second, "--home", str(world.home / "another")))
        assert (apart.returncode, apart.stdout) == (0, "1\n"), apart.stderr
        alike = world.program(*inside(CONNECT, first))
        assert alike.stdout == "connected\n", alike.stderr
        process.communicate(timeout=60)
    again = world.program(*inside("print(2)", second))
    assert again.stdout == "2\n", again.stderr
