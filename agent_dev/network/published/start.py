"""Start serving the published ports of a sandbox, in the gateway's process."""

import asyncio
import socket

from agent_dev.config.network_rules import LocalRule, parse_rules
from agent_dev.config.published_ports import AUTO
from agent_dev.network.connection_log import ConnectionLog
from agent_dev.network.gateway_options import GatewayOptions
from agent_dev.network.published.automatic import AutomaticPorts
from agent_dev.network.published.listening import listening_ports
from agent_dev.network.published.port_list import PortList
from agent_dev.network.published.publisher import Opener, Publisher
from agent_dev.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NamespaceSockets:
    """Sockets of the sandbox's network namespace: one for sock_diag(7), and one that leads to the opener."""

    diag: socket.socket
    opener: socket.socket


def start_publishing(
    options: GatewayOptions, listeners: list[tuple[int, int]], sockets: NamespaceSockets, log: ConnectionLog
) -> Publisher:
    """Serve listening sockets, each for a port inside, and with `auto` the ports on which programs inside listen."""
    publisher = Publisher(Opener(sockets.opener), log)
    ports = PortList(options.published_file)
    for fd, inside in listeners:
        listener = socket.socket(fileno=fd)
        publisher.publish(listener, inside)
        ports.add(listener, inside)
    ports.write()
    if AUTO in options.publish:
        local = {rule.inside for rule in parse_rules(options.allow).allow if isinstance(rule, LocalRule)}
        others = frozenset(local | {inside for _, inside in listeners})
        automatic = AutomaticPorts(publisher, lambda: listening_ports(sockets.diag), others, ports)
        publisher.follower = asyncio.get_running_loop().create_task(automatic.follow())
    return publisher
