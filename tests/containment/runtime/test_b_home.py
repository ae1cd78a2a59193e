"""CONTAINMENT B: two sessions that share an agent home or another directory."""

import socket

import pytest

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PYTHON, wait_until

LISTEN = """
import os, socket, sys
one = socket.socket(socket.AF_UNIX)
one.bind(os.path.expanduser((sys.argv[1:] or ["~/talk"])[0]))
one.listen()
connection, _ = one.accept()
"""
CONNECT = """
import os, socket, sys
one = socket.socket(socket.AF_UNIX)
one.connect(os.path.expanduser((sys.argv[1:] or ["~/talk"])[0]))
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


DIRECT = ("run", "--direct")
# How the first session writes the directory that contains the socket, and how the second one sees it; {} is that directory.
SHARED = {
    "both write it": (("--rw", "{}"), ("--rw", "{}")),
    "the other reads it": (("--rw", "{}"), ("--ro", "{}")),
    "the other reads the directory above": (("--rw", "{}"), ("--ro", "{above}")),
    "the other writes what the first reads": (("--ro", "{above}"), ("--rw", "{}")),
    "both work in the real tree": (DIRECT, DIRECT),
    "the other reads the real tree": (DIRECT, ("--ro", "{repo}")),
}


@pytest.mark.parametrize("way", SHARED)
@row(
    "connect from a session without a network to one with it, through a socket in an `--rw` directory or a tree of `--direct`",
    "directories that a session writes are seen only by sessions with the same network: the second is refused",
)
def test_b26_sessions_with_and_without_a_network_share_no_directory(world: Machine, way: str) -> None:
    shared = world.folder / "above" / "shared"
    shared.mkdir(parents=True)
    elsewhere = world.home / "src/other"
    elsewhere.mkdir()
    names = {"above": shared.parent, "repo": world.program.repo}

    def words(net: str, options: tuple[str, ...], home: str, *command: str) -> tuple[str, ...]:
        given = tuple(one.format(shared, **names) for one in options)
        network = ("--net", net, "--home", str(world.home / home))
        return (*network, *given, "--", *command) if given == DIRECT else (*network, "--no-merge", *given, "--", *command)

    first, second = SHARED[way]
    place = world.program.repo if second == DIRECT else elsewhere
    with world.program.start(*words("none", first, "one", "sh", "-c", "echo ready; cat")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        refused = world.program(*words("host", second, "two", "true"), cwd=place)
        assert refused.returncode == 125
        assert "sharing it would connect the two" in refused.stderr
        alike = world.program(*words("none", second, "two", "echo", "1"), cwd=place)
        assert alike.stdout == "1\n", alike.stderr
        process.communicate(timeout=60)
    again = world.program(*words("host", second, "two", "echo", "2"), cwd=place)
    assert again.stdout == "2\n", again.stderr


def test_b26_a_socket_is_not_connected_to_through_an_overlay(world: Machine) -> None:
    """So a repository may be worked in directly by one session, and seen in the overlay of another."""
    place = world.program.repo / "talk"
    one, two = (("--home", str(world.home / name)) for name in ("one", "two"))
    with world.program.start("--net", "host", *one, *DIRECT, "--", PYTHON, "-c", LISTEN, str(place)) as process:
        wait_until(place.exists, "it listens")
        tried = world.program("--net", "none", *two, "--no-merge", "--", PYTHON, "-c", CONNECT, str(place))
        assert "ConnectionRefusedError" in tried.stderr
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(str(place))
        process.communicate(timeout=60)
