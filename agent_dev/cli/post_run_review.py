"""Open the review after a run on a terminal; elsewhere print the changes and the next commands."""

from agent_dev.cli.console import notify
from agent_dev.cli.render import changes
from agent_dev.cli.screen import frontend
from agent_dev.errors import AgentDevError
from agent_dev.merge.retention import expire
from agent_dev.merge.review import open_review
from agent_dev.overlay.labels import format_count
from agent_dev.run.job import Outcome
from agent_dev.run.request import RunRequest
from agent_dev.session import sessions, store


def review_run(outcome: Outcome, request: RunRequest) -> int:
    """Show the changes of a session and offer to merge them; return the agent's exit code, whatever happens here."""
    try:
        _offer(outcome, request)
    except AgentDevError as error:
        notify(error.message)
        print_next_commands(outcome)
    except OSError as error:
        notify(f"cannot read the session now: {error.strerror}")
        print_next_commands(outcome)
    return outcome.exit_code


def _offer(outcome: Outcome, request: RunRequest) -> None:
    if outcome.refreshes:
        times = "once" if outcome.refreshes == 1 else f"{outcome.refreshes} times"
        notify(f"the repository changed {times} during the run; the agent's view was refreshed")
    for message in filter(None, (outcome.kept_notice, outcome.checkpoint_error)):
        notify(message)
    context = sessions.command_context(request.options, request.environ)
    review = open_review(outcome.session, context.environ, with_risks=False, seen=outcome.review_cache)
    try:
        if (outcome.changes or outcome.commits) and outcome.opens_review and frontend.has_screen(request.environ):
            frontend.review_session(review, context)
            expire.expire_merges(context, notify)
        else:
            changes.print_summary(review, len(review.folded.changes), outcome.commits)
        if review.record.get("state") == store.MERGED:
            outcome = outcome.replace(changes=0)
        if outcome.is_kept:
            print_next_commands(outcome)
    finally:
        review.close()
        store.unlock_session(outcome.session)


def print_next_commands(outcome: Outcome) -> None:
    """Print the exact commands to inspect, merge and discard the session."""
    lines = [("diff", "show the changes"), ("merge", "select and apply changes")] if outcome.changes else []
    if outcome.commits:
        lines.append(("commits", f"{format_count(outcome.commits, 'commit')}; import: merge --commits"))
    elif outcome.refs:
        lines.append(("commits", f"no commits; moved branches or tags: {outcome.refs}"))
    notify(f"session {outcome.name} is waiting:")
    for verb, about in (*lines, ("discard", "move it to the trash")):
        notify(f"  {f'agent-dev {verb} {outcome.name}':<42} {about}")
