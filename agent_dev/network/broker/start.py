"""Start the broker in the gateway's process: read the keys, create the session's certificate authority and a handler per host."""

import resource
import ssl

from agent_dev.config.network_rules import HTTPS
from agent_dev.linux import syscalls
from agent_dev.network.broker import sources, trust_files
from agent_dev.network.broker.authority import Authority
from agent_dev.network.broker.handler import BrokerHandler
from agent_dev.network.broker.keys import BrokeredKey
from agent_dev.network.broker.options import BrokerOptions
from agent_dev.network.connection_log import ConnectionLog
from agent_dev.network.inspection import HTTP

Handlers = dict[tuple[str, int], BrokerHandler]


def start_broker(options: BrokerOptions, upstream_ca: str, log: ConnectionLog) -> Handlers:
    """Return the handlers of hosts with a credential, by name and port inside. Raises ValueError with the reason."""
    _hide_memory()
    try:
        keys = [_key(options, number) for number in range(len(options.credentials))]
        authority = Authority(tuple(one.host for one in options.credentials))
        trust_files.write_files(options.folder, authority, upstream_ca)
        outside = _outside_context(upstream_ca)
    except sources.NoKey as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        raise ValueError(f"certificates cannot be written: {error.strerror or error}") from None
    handlers = {key.credential.host: BrokerHandler(key, authority, outside, log) for key in keys}
    return {(host, port): handler for host, handler in handlers.items() for port in (HTTP, HTTPS)}


def _key(options: BrokerOptions, number: int) -> BrokeredKey:
    credential = options.credentials[number]
    return BrokeredKey(credential, sources.read_key(credential, options), options.stand_ins[credential.variable].encode())


def _outside_context(upstream_ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if upstream_ca:
        context.load_verify_locations(upstream_ca)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _hide_memory() -> None:
    """Write no core dump, and let no other process of the user read this one's memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    syscalls.hide_process()
