"""The gateway's process once it is needed: serve with the sockets from the sandbox's namespace until the launcher ends it."""

import _socket
import asyncio
import gc
import os
import socket
from collections.abc import Mapping

from agent_dev.network.connecting import Connector, DirectConnector
from agent_dev.network.connection_handlers import Handler
from agent_dev.network.connection_log import ConnectionLog
from agent_dev.network.deciding.caller_notes import CallerNotes
from agent_dev.network.deciding.deciders import Decider, LearnDecider, RuleDecider
from agent_dev.network.deciding.live_rules import LiveRules
from agent_dev.network.forwarding import Forwarder
from agent_dev.network.gateway import Gateway
from agent_dev.network.gateway_options import END, LOG, GatewayOptions
from agent_dev.network.programs import ProgramFinder
from agent_dev.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """The parts of a gateway that need no sockets."""

    options: GatewayOptions
    live: LiveRules
    log: ConnectionLog
    handlers: Mapping[tuple[str, int], Handler]


@dataclass(frozen=True, slots=True)
class GatewaySockets:
    """Descriptors of the sockets made in the namespace (namespace.serve), and of published ports, each with its port inside."""

    inside: list[int]
    published: list[tuple[int, int]]


def load(options: GatewayOptions) -> GatewayParts:
    """Read rules and keys, open the log. Raises ValueError, OSError."""
    live = LiveRules(options.allow, options.deny, options.folder, (options.remembered, options.remembered_mark))
    log = ConnectionLog(f"{options.folder}/{LOG}")
    return GatewayParts(options, live, log, _handlers(options, log))


def run(control: _socket.socket, parts: GatewayParts, given: GatewaySockets, relay: int) -> None:
    """Serve a sandbox; return when the launcher closes its end. `relay`: the pid of its terminal's relay, 0 for none."""
    gc.freeze()
    gc.enable()
    options, live = parts.options, parts.live
    sockets = [socket.socket(fileno=fd) for fd in given.inside]
    finder = ProgramFinder(sockets[0])
    notes, connector = CallerNotes(finder), _connector(options)
    decider = _ask_decider(options, live, notes, connector, relay) if options.mode == "ask" else _decider(options, live)
    forwarder = Forwarder(parts.log, decider, connector, notes, parts.handlers)
    asyncio.run(_serve(control, forwarder, sockets, finder, (options, given.published)))


def _decider(options: GatewayOptions, live: LiveRules) -> Decider:
    return LearnDecider(live.current) if options.mode == "learn" else RuleDecider(live.current)


def _ask_decider(options: GatewayOptions, live: LiveRules, notes: CallerNotes, connector: Connector, relay: int) -> Decider:
    from agent_dev.network.deciding.asking import AskDecider  # only with `ask`
    from agent_dev.network.deciding.questions import Questions
    from agent_dev.session.alerts import Alerts

    questions = Questions(options.folder, options.ask_seconds, Alerts(options.notifications, relay), notes)
    return AskDecider(live, questions, connector)


def _handlers(options: GatewayOptions, log: ConnectionLog) -> Mapping[tuple[str, int], Handler]:
    """Return the handlers of hosts with a credential. Raises ValueError."""
    if options.broker is None:
        return {}
    from agent_dev.network.broker.start import start_broker  # most sandboxes have no credentials

    return start_broker(options.broker, options.upstream_ca, log)


def _connector(options: GatewayOptions) -> Connector:
    if not options.proxy:
        return DirectConnector()
    from agent_dev.config.upstream_proxy import parse_proxy  # only with a proxy
    from agent_dev.network.upstream.connector import UpstreamConnector

    proxy = parse_proxy(options.proxy)
    return UpstreamConnector(proxy, options.no_proxy) if proxy else DirectConnector()


async def _serve(
    control: _socket.socket,
    forwarder: Forwarder,
    sockets: list[socket.socket],
    finder: ProgramFinder,
    publishing: tuple[GatewayOptions, list[tuple[int, int]]],
) -> None:
    """Serve until the launcher sends END or closes the control socket; then report the end of the log."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(control.fileno(), ended.set)
    diag, *others = sockets
    publisher = None
    if publishing[0].publish:
        from agent_dev.network.published import start  # only with published ports

        opener, *others = others
        publisher = start.start_publishing(*publishing, start.NamespaceSockets(diag, opener), forwarder.log)
    gateway = Gateway(others, forwarder, finder)
    gateway.start()
    await ended.wait()
    await gateway.close()
    if publisher:
        await publisher.close()
    if control.recv(1) == END:
        control.send(forwarder.log.end())
    os._exit(0)  # without waiting for connections or name resolution
