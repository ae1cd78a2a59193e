"""CONTAINMENT B: sockets, buses, inherited descriptors."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

from tests.containment.rows import row
from tests.containment.test_c_processes import COLUMN
from tests.containment.world import World

STREAM, RAW = 1, 3
KEY = "agent-dev-canary"
FAMILIES = {
    "unix": (1, STREAM, 0),
    "inet": (2, STREAM, 0),
    "inet6": (10, STREAM, 0),
    "netlink route": (16, RAW, 0),
    "netlink uevent": (16, RAW, 15),
    "netlink diag": (16, RAW, 4),
    "netlink audit": (16, RAW, 9),
    "packet": (17, RAW, 0),
    "key": (15, RAW, 2),
    "tipc": (30, STREAM, 0),
    "bluetooth": (31, RAW, 0),
    "alg": (38, 5, 0),
    "vsock": (40, STREAM, 0),
    "xdp": (44, RAW, 0),
}
OPEN = ["unix", "inet", "inet6", "netlink route"]


@pytest.fixture(scope="module")
def key() -> Iterator[None]:
    """A key in the keyring of the user's session."""
    libc = ctypes.CDLL(None, use_errno=True)
    add, control = ((248, 217)[COLUMN], (250, 219)[COLUMN])
    session = ctypes.c_long(-3)
    number = libc.syscall(add, b"user", KEY.encode(), b"secret", ctypes.c_long(6), session)
    assert number > 0, ctypes.get_errno()
    yield
    libc.syscall(control, ctypes.c_long(9), ctypes.c_long(number), session)  # unlink


@pytest.fixture(scope="module")
def found(shared: World, net: str, key: None) -> dict[str, Any]:
    """What came of everything that is tried here, with each network."""
    return shared.tried({"sections": ["kernel"], "calls": {}, "key": KEY, "families": FAMILIES}, "--net", net)


@row("read or use the keys of the user's session", "the filter: ENOSYS; only their names show, in `/proc/keys`")
def test_b18_the_users_keyring_does_not_exist(found: dict[str, Any]) -> None:
    assert found["keys"] == {"search": "ENOSYS", "request": "ENOSYS", "add": "ENOSYS"}


@row("sockets of other families: packet, vsock, bluetooth, alg …", "the filter has a list of those that are allowed")
def test_b20_sockets_are_of_few_families(found: dict[str, Any]) -> None:
    expected = {name: "EPROTONOSUPPORT" if name.startswith("netlink") else "EAFNOSUPPORT" for name in FAMILIES}
    assert found["families"] == expected | dict.fromkeys(OPEN, "done")
