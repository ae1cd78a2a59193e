"""Deciders, one per network mode: find the rule that allows a captured connection."""

from ipaddress import ip_network
from typing import Protocol

from agent_dev.config.network_rules import AddressRule, NameRule, RuleSet
from agent_dev.network import access
from agent_dev.network.access import Denied, Destination, NoRule
from agent_dev.network.connection import Connection


class Decider(Protocol):
    """Decides whether connections are allowed."""

    @property
    def rules(self) -> RuleSet:
        """The rules in force now."""

    async def decide(self, connection: Connection) -> NameRule | AddressRule:
        """Return the rule that allows a connection. Raises Denied."""


class RuleDecider:
    """Decides by rules alone: the mode `allow`."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules

    async def decide(self, connection: Connection) -> NameRule | AddressRule:
        """Return the rule that allows a connection. Raises Denied."""
        return access.decide(self.rules, connection.wanted)


class LearnDecider:
    """Allows every name that no rule denies, and marks those without a rule: the mode `learn`.

    The addresses of a name are checked as for every rule without `private: true`.
    """

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules

    async def decide(self, connection: Connection) -> NameRule | AddressRule:
        """Return the rule that allows a connection. Raises Denied."""
        try:
            return access.decide(self.rules, connection.wanted)
        except NoRule:
            if not connection.wanted.name:
                raise Denied("no rule allows it, and `learn` allows only names") from None
        connection.entry.row["learned"] = True
        return rule_for(connection.wanted)


def rule_for(wanted: Destination) -> NameRule | AddressRule:
    """Return the rule for exactly one destination."""
    if wanted.name:
        return NameRule(str(wanted), wanted.name, (wanted.port,))
    return AddressRule(str(wanted), ip_network(wanted.address), (wanted.port,))
