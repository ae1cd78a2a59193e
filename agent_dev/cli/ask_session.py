"""Ask which one of several sessions a subcommand means."""

import os
import sys
from collections.abc import Sequence

from agent_dev.cli import typeahead
from agent_dev.cli.console import warn
from agent_dev.errors import UsageError
from agent_dev.session.sessions import ListedSession


def ask_session(found: Sequence[ListedSession], words: tuple[str, str, str], hint: str) -> ListedSession:
    """Return the session that the user selects. Raises UsageError without a terminal or an answer.

    `words`: the state that the sessions have in common, the verb of the question, and its participle.
    """
    state, verb, past = words
    if not (os.isatty(0) and os.isatty(2)):
        raise UsageError(message=f"several sessions are {state}: {', '.join(one.name for one in found)}", hint=hint)
    for number, one in enumerate(found, 1):
        warn(f"{number}: {one.name}, {one.state}: {' '.join(map(str, one.record['command']))}")
    typeahead.drop_typeahead()
    sys.stderr.write(f"agent-dev: {verb} which session? [1-{len(found)}, enter: none] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer.isascii() or not answer.isdigit() or not 1 <= int(answer) <= len(found):
        raise UsageError(message=f"no session was {past}", hint=hint)
    return found[int(answer) - 1]
