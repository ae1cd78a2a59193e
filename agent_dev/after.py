"""What follows an agent: the merge screen on a terminal, else the list and what to type next."""

import os
import sys

from agent_dev.cli import say
from agent_dev.commands import merge, retention, sessions
from agent_dev.commands.prepare import Request
from agent_dev.commands.review import Review, open_review
from agent_dev.commands.run import Outcome
from agent_dev.core.commits import Commit
from agent_dev.errors import DONE, PARTLY, AgentDevError
from agent_dev.host import commits, store
from agent_dev.output import looking, merging

_COUNTED = 300  # changes: up to here lines are counted before the screen opens


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
            screen(review, where.store)
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


def screen(review: Review, place: store.Store) -> int:
    """Let the user choose on the merge screen, then merge; without a capable terminal say what to type."""
    if not (review.changes.changes or review.changes.problems):
        say("there is nothing to merge")
        return DONE
    if not is_screen_possible(dict(os.environ)):
        looking.summary(review, len(review.changes.changes), 0)
        say("no terminal for the merge screen:  agent-dev merge --all  |  merge --take PATH")
        return PARTLY
    from tui.app import review as choose

    chosen = choose(ForScreen(review))
    if chosen is None or not chosen.keys:
        say("nothing was merged")
        return DONE
    planned = merge.plan(review, chosen, chosen.keys)
    merged = merge.carry_out(review, planned, place, say)
    merging.merged(merged, review, is_dry=False, as_json=False)
    return PARTLY if merged.conflicts else DONE


class ForScreen:
    """A review as the merge screen wants it."""

    def __init__(self, review: Review) -> None:
        record = review.record
        self.session = str(record.get("name") or review.session.id)
        self.root = record["root"]
        self.roots = tuple(record["roots"])
        command = record["command"]
        self.command = tuple(map(str, command))
        self.changes = review.counted() if len(review.changes.changes) <= _COUNTED else review.changes
        self.commits = tuple((one.id, one.subject) for one in _made(review))
        self.content = review.content


def _made(review: Review) -> tuple[Commit, ...]:
    try:
        return commits.made(review.session, review.record, dict(os.environ))
    except AgentDevError as error:
        say(error.message)
        return ()
