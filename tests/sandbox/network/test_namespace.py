"""The sockets that the gateway gets from a network namespace."""

import os
import socket
import struct
from pathlib import Path

import pytest

from agent_dev.linux import syscalls
from agent_dev.network import namespace, netlink
from agent_dev.network.namespace import NamespaceSpec


def _prepare(*, with_ipv6: bool) -> str:
    """Prepare a new network namespace of this process; return the kinds of the sockets."""
    syscalls.unshare(syscalls.NEWUSER | syscalls.NEWNET)
    if not with_ipv6:
        for name in ("all", "default", "lo"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
    up = struct.pack("=BBHiII", 0, 0, 0, socket.if_nametoindex("lo"), 1, 1)
    netlink.send(netlink.ROUTE, [netlink.message(16, netlink.REQUEST | netlink.ACK, up)], "lo")
    made = [socket.socket(fileno=fd) for fd in namespace._prepare_here(NamespaceSpec((8081,)))]
    return " ".join(f"{one.family.name}:{one.getsockname()[1]}" for one in made)


@pytest.mark.parametrize("with_ipv6", [True, False])
def test_without_ipv6_the_network_has_ipv4_alone(*, with_ipv6: bool) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, _prepare(with_ipv6=with_ipv6).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as file:
        found = file.read()
    os.waitpid(child, 0)
    four, six = ["AF_INET:1", "AF_INET:53"], ["AF_INET6:1", "AF_INET6:53"]
    local = ["AF_INET:8081", *(["AF_INET6:8081"] if with_ipv6 else [])]
    assert found.split()[1:] == [*four, *(six if with_ipv6 else []), *local]
