"""The mode `ask`: a connection that no rule matches waits for the user's answer."""

import time

from agent_dev.config.network_rules import AddressRule, NameRule, RuleSet
from agent_dev.config.remembered_rules import ALLOW, DENY
from agent_dev.network import access
from agent_dev.network.access import Denied, Destination, NoRule
from agent_dev.network.addresses import is_public
from agent_dev.network.connecting import Connector, failure_reason
from agent_dev.network.connection import Connection
from agent_dev.network.deciding.deciders import rule_for
from agent_dev.network.deciding.live_rules import LiveRules
from agent_dev.network.deciding.questions import GONE, NONE, Questions
from agent_dev.session import approvals

_NO_ANSWER = {NONE: "nobody approved it in time", GONE: "the client gave up before an answer"}


class AskDecider:
    """Decides by rules, then by the user. Deny rules and targets that are not public are refused without a question."""

    def __init__(self, live: LiveRules, questions: Questions, connector: Connector) -> None:
        self._live, self._questions, self._connector = live, questions, connector
        questions.on_answer = self._apply

    @property
    def rules(self) -> RuleSet:
        """The rules in force now."""
        return self._live.current

    async def decide(self, connection: Connection) -> NameRule | AddressRule:
        """Return the rule that allows a connection. Raises Denied."""
        wanted = connection.wanted
        self._live.read_changes()  # another session's answers
        try:
            return access.decide(self.rules, wanted)
        except NoRule:
            rule = rule_for(wanted)
        await self._check_destination(rule, wanted)
        if access.is_undecided(self.rules, wanted):  # an answer may have come since
            await self._ask(connection)
            return rule
        return access.decide(self.rules, wanted)

    async def _check_destination(self, rule: NameRule | AddressRule, wanted: Destination) -> None:
        """Raise Denied for a destination that would be refused in any case, and for a name that does not exist."""
        if isinstance(rule, NameRule):
            try:
                await self._connector.addresses(self.rules, rule, wanted)
            except OSError as error:
                raise Denied(f"no rule allows it, and {failure_reason(error)}") from None
        elif not is_public(wanted.address):
            raise Denied("no rule allows it, and agent-dev does not ask about non-public addresses")

    async def _ask(self, connection: Connection) -> None:
        """Wait for the user's approval. Raises Denied."""
        start, row = time.monotonic(), connection.entry.row
        answer = NONE
        try:
            answer = await self._questions.ask(connection)
        finally:
            row |= {"answer": answer, "waited": round(1000 * (time.monotonic() - start))}
        if answer in _NO_ANSWER:
            raise Denied(_NO_ANSWER[answer])
        if answer == approvals.NO:
            raise Denied("denied by the user")

    def _apply(self, wanted: Destination, answer: str) -> None:
        """Add the rule that follows from an answer."""
        if answer == approvals.NO:
            self._live.add_for_session(DENY, str(wanted))
        elif answer in (approvals.SESSION, approvals.ALWAYS):  # ALWAYS: the profile's file already has it
            self._live.add_for_session(ALLOW, str(wanted))
