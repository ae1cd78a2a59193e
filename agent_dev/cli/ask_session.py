"""Ask which one of several sessions a subcommand means."""

import os
import sys
from collections.abc import Sequence

from agent_dev.cli import typeahead
from agent_dev.cli.console import warn
from agent_dev.cli.render.format import SHORTEST_COMMAND, command_text
from agent_dev.errors import UsageError
from agent_dev.session import sessions, store
from agent_dev.session.origin import typed_words
from agent_dev.session.sessions import CommandContext, ListedSession

_COLUMNS = 80


def ask_running_session(context: CommandContext, hint: str, words: tuple[str, str]) -> ListedSession:
    """Return the running session of the repository; if there are several, the one that the user selects.

    `hint`: a command line, in which {} stands for the name of a session; `words`: the verb of the question, and its participle.
    Raises NoSession, or UsageError as `ask_session`.
    """
    found = [one for one in sessions.sessions_of_repository(context) if one.state == store.RUNNING]
    if len(found) > 1:
        return ask_session(found, ("running", *words), hint.format(found[-1].name))
    return found[0] if found else sessions.find_session(context, "", (store.RUNNING,))


def ask_session(found: Sequence[ListedSession], words: tuple[str, str, str], hint: str) -> ListedSession:
    """Return the session that the user selects. Raises UsageError without a terminal or an answer.

    `words`: the state that the sessions have in common, the verb of the question, and its participle.
    """
    state, verb, past = words
    if not (os.isatty(0) and os.isatty(2)):
        raise UsageError(message=f"several sessions are {state}: {', '.join(one.name for one in found)}", hint=hint)
    for number, one in enumerate(found, 1):
        row = f"{number}: {one.name}, {one.state}: "
        warn(row + command_text(typed_words(one.record), max(_COLUMNS - len(f"agent-dev: {row}"), SHORTEST_COMMAND)))
    typeahead.drop_typeahead()
    sys.stderr.write(f"agent-dev: {verb} which session? [1-{len(found)}, enter: none] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer.isascii() or not answer.isdigit() or not 1 <= int(answer) <= len(found):
        raise UsageError(message=f"no session was {past}", hint=hint)
    return found[int(answer) - 1]
