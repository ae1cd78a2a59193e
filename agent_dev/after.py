"""What follows an agent: the merge screen on a terminal, else the list and what to type next."""

import os
import sys

from agent_dev.cli import say
from agent_dev.commands import retention, sessions
from agent_dev.commands.prepare import Request
from agent_dev.commands.review import Review, open_review
from agent_dev.commands.run import Outcome
from agent_dev.commands.sessions import Here
from agent_dev.errors import DONE, PARTLY, AgentDevError, UsageError
from agent_dev.host import store
from agent_dev.output import looking


def after_run(outcome: Outcome, request: Request) -> int:
    """Show what a session holds and offer to merge it; return the agent's own exit code, whatever came of that."""
    try:
        _offer(outcome, request)
    except AgentDevError as error:
        say(error.message)
        next_words(outcome)
    except OSError as error:
        say(f"the session cannot be looked at now: {error.strerror}")
        next_words(outcome)
    return outcome.code


def _offer(outcome: Outcome, request: Request) -> None:
    if outcome.moves:
        say(f"the repository changed {outcome.moves} times while the agent worked; its view was refreshed")
    where = sessions.here(request.options, request.environ)
    review = open_review(outcome.session, where.environ)
    try:
        if outcome.changes and outcome.merge and is_screen_possible(request.environ):
            screen(review, where)
            retention.thin(where, say)
        else:
            looking.summary(review, len(review.changes.changes), outcome.commits)
        if review.record.get("state") == store.MERGED:
            outcome = outcome.but(changes=0)
        if outcome.is_kept:
            next_words(outcome)
    finally:
        review.close()
        store.let_go(outcome.session)


def next_words(outcome: Outcome) -> None:
    """Say the exact commands to look, merge and discard."""
    lines = [("diff", "look"), ("merge", "choose what comes home")] if outcome.changes else []
    if outcome.commits:
        lines.append(("commits", f"{outcome.commits} commit{'s' * (outcome.commits > 1)}, in the session for now"))
    elif outcome.refs:
        lines.append(("commits", f"no commits; branches or tags that moved: {outcome.refs}, in the session for now"))
    say(f"session {outcome.name} waits:")
    for verb, about in (*lines, ("discard", "put it into the trash")):
        say(f"  {f'agent-dev {verb} {outcome.name}':<42} {about}")


def is_screen_possible(environ: dict[str, str]) -> bool:
    """Whether there is a terminal that can carry the merge screen."""
    if not (os.isatty(0) and os.isatty(2)) or environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    from tui.terminal import is_capable

    return is_capable(environ, sys.stdin, sys.__stderr__)


def screen(review: Review, where: Here) -> int:
    """Let the user choose and merge on the merge screen; without a capable terminal say what to type."""
    if not (review.changes.changes or review.changes.problems):
        say("there is nothing to merge")
        return DONE
    if not is_screen_possible(where.environ):
        looking.summary(review, len(review.changes.changes), 0)
        say("no terminal for the merge screen:  agent-dev merge --all  |  merge --take PATH  |  merge --plain")
        return PARTLY
    from agent_dev.reviewing import Reviewing  # the screen is not needed by words that only print
    from tui.app import review as choose
    from tui.bindings import REVIEW
    from tui.theme import Looks

    unknown = [name for name, _ in where.profile.keys if name not in REVIEW]
    if unknown:
        hint = f"the help on ? lists what keys do; in config.yaml they are called {', '.join(REVIEW)}"
        raise UsageError(message=f"config.yaml: keys: there is no {unknown[0]}", hint=hint)
    source = Reviewing(review, where.store)
    code = choose(source, Looks(where.profile.theme, dict(where.profile.keys)))
    for line in source.ended.lines if source.ended is not None else ("nothing was merged",):
        say(line)
    return source.ended.code if source.ended is not None else code
