"""What follows an agent: the merge screen on a terminal, else the list and what to type next."""

from agent_dev.cli.main import say
from agent_dev.cli.render import changes as looking
from agent_dev.cli.screen import choose_frontend as screens
from agent_dev.errors import AgentDevError
from agent_dev.merge.retention import expire as retention
from agent_dev.merge.review import open_review
from agent_dev.run.prepare import Request
from agent_dev.run.run import Outcome
from agent_dev.session import sessions, store


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
        times = "once" if outcome.moves == 1 else f"{outcome.moves} times"
        say(f"the repository changed {times} while the agent worked; its view was refreshed")
    for told in filter(None, (outcome.undone, outcome.unkept)):
        say(told)
    where = sessions.here(request.options, request.environ)
    review = open_review(outcome.session, where.environ)
    try:
        if (outcome.changes or outcome.commits) and outcome.merge and screens.is_possible(request.environ):
            screens.show(review, where)
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
        lines.append(("commits", f"{outcome.commits} commit{'s' * (outcome.commits > 1)}; merge --commits brings them home"))
    elif outcome.refs:
        lines.append(("commits", f"no commits; branches or tags that moved: {outcome.refs}, in the session for now"))
    say(f"session {outcome.name} waits:")
    for verb, about in (*lines, ("discard", "put it into the trash")):
        say(f"  {f'agent-dev {verb} {outcome.name}':<42} {about}")
