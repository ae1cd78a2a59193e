"""Deciders: which rule allows a captured connection. One per mode of the network."""

from typing import Protocol

from agent_dev.config.network_rules import AddressRule, NameRule, RuleSet
from agent_dev.network import access
from agent_dev.network.connection import Connection


class Decider(Protocol):
    """Decides about connections."""

    async def decide(self, connection: Connection) -> NameRule | AddressRule:
        """Return the rule that allows a connection. Raises Denied."""


class RuleDecider:
    """Decides by rules alone: the mode `allow`."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules

    async def decide(self, connection: Connection) -> NameRule | AddressRule:
        """Return the rule that allows a connection. Raises Denied."""
        return access.decide(self._rules, connection.wanted)
