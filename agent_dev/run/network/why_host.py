"""Explain a host behind a gateway: the rule that decides, and where it is written."""

from agent_dev.config import network_rules
from agent_dev.config.network_rules import HTTPS, AddressRule, LocalRule
from agent_dev.config.profile import BUILT_IN, Settings
from agent_dev.config.published_ports import fixed_ports
from agent_dev.network.addresses import is_public, may_reach
from agent_dev.network.deciding.live_rules import read_session_rules
from agent_dev.run.network import credentials
from agent_dev.run.request import PreparedRun

REACHABLE, UNREACHABLE, ASKED, INSIDE = "reachable", "not reachable", "asks you", "in the sandbox"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CONFIG = "config.yaml"
HTTP = 80
_SESSION_ORIGIN = "your answer for the session"

Found = tuple[str, str, str, tuple[str, ...]]  # state, text, origin, changes


def explain_by_rules(host: str, name: str, prepared: PreparedRun, folder: str) -> Found:
    """Explain a host with its port, without one 443. `name`: the host alone; `folder`: of a session, "" for a new one."""
    _, colon, digits = host.removeprefix(f"[{name}]").removeprefix(name).rpartition(":")
    port = int(digits) if colon and digits.isascii() and digits.isdecimal() else HTTPS
    profile, session = prepared.settings.profile, read_session_rules(folder)
    rules = network_rules.parse_rules((*profile.allow, *session.allow), (*profile.deny, *session.deny))
    network = network_rules.parse_network(name)
    bare = name if network else _canonical(name)
    wanted = {"address": network.network_address} if network else {"name": bare}
    denying, allowing = rules.denying(port, **wanted), rules.allowing(port, **wanted)
    local = next((one for one in rules.allow if isinstance(one, LocalRule) and one.inside == port), None)
    found = denying or (local if name in _LOOPBACK else allowing)
    with_key, key_origin = credentials.host_credential(prepared.settings, bare) if port in (HTTP, HTTPS) else ("", "")
    if with_key and not denying:
        return REACHABLE, f"{with_key}; through the gateway", f"credentials ({key_origin})", ()
    if found is not None:
        field = "deny" if denying else "allow"
        given = dict.fromkeys((f"{field}:{rule}" for rule in getattr(session, field)), _SESSION_ORIGIN)
        origin = {**given, **prepared.settings.origins}.get(f"{field}:{found.text}", BUILT_IN)
        decided_by, rule = f"{field}: {found.text} ({origin})", _rule(name, port)
        if not denying and network and isinstance(found, AddressRule) and not may_reach(found.network, network.network_address):
            text = f"it is not public, and {found.text} is wider than one private network"
            return UNREACHABLE, text, decided_by, (f"--allow {rule}",)
        if denying:
            return UNREACHABLE, f"port {port} is denied" if denying.ports else "all ports are denied", decided_by, ()
        return REACHABLE, f"port {port}, through the gateway", decided_by, ()
    state, text = _without_rule(profile.net, name, is_public_target=network is None or is_public(network.network_address))
    rule = _rule(name, port)
    origin = f"net: {profile.net} ({prepared.settings.origins.get('net', BUILT_IN)})"
    return state, text, origin, (f"--allow {rule}", f"allow: [{rule!r}] in {_CONFIG}")


def _canonical(name: str) -> str:
    try:
        return network_rules.canonical_name(name)
    except ValueError:
        return name.lower()


def _rule(name: str, port: int) -> str:
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def explain_published(host: str, settings: Settings) -> Found | None:
    """Explain a port of the sandbox's loopback that is published on this machine; None for any other port."""
    number = host.rpartition(":")[2]
    found = next((one for one in fixed_ports(settings.profile.publish) if str(one.inside) == number), None)
    if found is None:
        return None
    optional = ", if it is free there" if found.is_optional else ""
    place = f"[{found.address}]" if ":" in found.address else found.address
    text = f"a server of the agent, published at {place}:{found.outside}{optional}"
    return INSIDE, text, f"publish: {found.text} ({settings.origins.get(f'publish:{found.text}', BUILT_IN)})", ()


def _without_rule(net: str, name: str, *, is_public_target: bool) -> tuple[str, str]:
    """Return the state of a host that no rule names, and why."""
    is_asked_about = name not in _LOOPBACK and is_public_target
    if net == "ask" and is_asked_about:
        return ASKED, "no rule allows it: the connection waits for `agent-dev approve`, if it leads to public addresses"
    if net == "learn" and is_asked_about and any(one.isalpha() for one in name.rpartition(".")[2]) and ":" not in name:
        return REACHABLE, "no rule names it: it is learned, if it leads to public addresses"
    return UNREACHABLE, "no rule allows it" if is_public_target else "no rule allows it, and it is not public"
