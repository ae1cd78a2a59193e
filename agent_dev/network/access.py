"""Decide where a connection of the sandbox may go: its destination, the rule that matches, and the addresses of a name. Pure."""

from ipaddress import IPv4Address, IPv6Address, ip_address

from agent_dev.config.network_rules import AddressRule, NameRule, RuleSet
from agent_dev.network.addresses import embedded, is_private, is_public, may_reach
from agent_dev.network.names import POOL, NameTable
from agent_dev.network.packet_rules import GATE4, GATE6
from agent_dev.quick_dataclass import dataclass

Address = IPv4Address | IPv6Address
_OWN = frozenset(map(ip_address, (GATE4, GATE6)))
NO_RULE = "no rule allows it"


class Denied(Exception):
    """A refused connection or request; the text is the reason."""


class NoRule(Denied):
    """No rule matches a destination that could be allowed."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A name, or an address without a name, and a port."""

    name: str
    address: Address
    port: int

    def __str__(self) -> str:
        host = self.name or (f"[{self.address}]" if self.address.version == 6 else str(self.address))
        return f"{host}:{self.port}"


def destination(address: Address, port: int, names: NameTable) -> Destination:
    """Return where a connection to an address inside was meant to go."""
    return Destination(names.name_of(embedded(address)), address, port)


def decide(rules: RuleSet, wanted: Destination) -> NameRule | AddressRule:
    """Return the rule that allows a destination. Raises Denied, NoRule."""
    if wanted.address in _OWN:
        raise Denied("the gateway itself")
    if wanted.name:
        denying = rules.denying(wanted.port, name=wanted.name)
        allowing = rules.allowing(wanted.port, name=wanted.name)
    else:
        if embedded(wanted.address) in POOL and not rules.allowing(wanted.port, address=wanted.address):
            raise Denied("no name has this stand-in address")
        denying = _denying_address(rules, wanted.port, wanted.address)
        allowing = rules.allowing(wanted.port, address=wanted.address)
    if denying is not None:
        raise Denied(f"denied by the rule {denying.text}")
    if allowing is None:
        raise NoRule(NO_RULE)
    if isinstance(allowing, AddressRule) and not may_reach(allowing.network, wanted.address):
        raise Denied(f"{NO_RULE}: it is not public, and {allowing.text} is wider than one private network")
    return allowing


def is_undecided(rules: RuleSet, wanted: Destination) -> bool:
    """Return whether no rule matches a destination that could be allowed."""
    try:
        decide(rules, wanted)
    except NoRule:
        return True
    except Denied:
        return False
    return False


def check_addresses(rules: RuleSet, rule: NameRule, wanted: Destination, found: tuple[Address, ...]) -> None:
    """Check a name's addresses. Raises Denied if one is not public: DNS rebinding mixes public and private addresses."""
    for address in found:
        if not is_public(address) and not (rule.is_private and is_private(address)):
            hint = "; `private: true` in its rule allows that" if is_private(address) and not rule.is_private else ""
            raise Denied(f"the name resolves to {address}, which is not public{hint}")
        denying = _denying_address(rules, wanted.port, address)
        if denying is not None:
            raise Denied(f"the name resolves to {address}, denied by the rule {denying.text}")


def _denying_address(rules: RuleSet, port: int, address: Address) -> NameRule | AddressRule | None:
    return rules.denying(port, address=address) or rules.denying(port, address=embedded(address))
