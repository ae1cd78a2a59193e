"""The rules of a running sandbox: those of its settings, and those that the user's answers add while it runs.

Answers for the session are kept in its folder, so that they apply when it is resumed. Permanent answers are in a file of the
profile.
"""

from agent_dev.config.network_rules import RuleSet, parse_rules
from agent_dev.config.remembered_rules import ALLOW, DENY, RememberedRules, read_rules
from agent_dev.errors import InvalidConfiguration
from agent_dev.fs import checksummed_json
from agent_dev.fs.state_files import replace_file
from agent_dev.network.gateway_options import file_mark

_SESSION_FILE = "network-rules.json"
_MAX_SIZE = 1 << 20  # bytes


class LiveRules:
    """The rules in force, to which answers are added."""

    def __init__(
        self, allow: tuple[str, ...], deny: tuple[str, ...], folder: str, remembered: tuple[str, tuple[int, ...]]
    ) -> None:
        """Take the rules of the settings and those in the session's folder. Raises ValueError.

        `remembered`: the profile's file, and its mark when its rules were taken into the settings.
        """
        self._allow, self._deny = allow, deny
        self._folder = folder
        self._remembered, self._seen = remembered
        self._session = read_session_rules(folder)
        self._always = RememberedRules()
        self.current: RuleSet = self._parsed()

    def add_for_session(self, field: str, rule: str) -> None:
        """Add a rule to `allow` or `deny` for this session."""
        before = getattr(self._session, field)
        if rule in before:
            return
        self._session = self._session.replace(**{field: (*before, rule)})
        self.current = self._parsed()
        lists = {ALLOW: self._session.allow, DENY: self._session.deny}
        try:
            replace_file(f"{self._folder}/{_SESSION_FILE}", checksummed_json.dumps(lists))
        except OSError:
            return  # disk full: the rule applies only until this run ends

    def read_changes(self) -> None:
        """Read the profile's file again if it has changed; a damaged one adds nothing."""
        now = file_mark(self._remembered)
        if now == self._seen:
            return
        self._seen = now
        try:
            self._always = read_rules(self._remembered)
        except (InvalidConfiguration, OSError):
            return
        self.current = self._parsed()

    def _parsed(self) -> RuleSet:
        more = (self._session, self._always)
        return parse_rules(
            dict.fromkeys((*self._allow, *(rule for one in more for rule in one.allow))),
            dict.fromkeys((*self._deny, *(rule for one in more for rule in one.deny))),
        )


def read_session_rules(folder: str) -> RememberedRules:
    """Return the rules that answers added for a session; none if the file is damaged, so that the user is asked again."""
    try:
        with open(f"{folder}/{_SESSION_FILE}", "rb") as file:
            lists = checksummed_json.loads(file.read(_MAX_SIZE))
        found = RememberedRules(*(tuple(map(str, lists[field])) for field in (ALLOW, DENY)))
        parse_rules(found.allow, found.deny)
    except (OSError, ValueError, KeyError, TypeError):
        return RememberedRules()
    return found
