"""Open the review after a run on a terminal; elsewhere print the changes and the next commands.

After any review, do what the user wants with the rest of the session: keep it, discard it, or send it back to the agent.
"""

from contextlib import closing

from agent_dev.agent_git import commits
from agent_dev.agent_git.repositories import list_repositories
from agent_dev.cli import review_notes
from agent_dev.cli.console import guard, is_quiet, notify, warn
from agent_dev.cli.render import changes
from agent_dev.cli.screen import frontend
from agent_dev.config.detachable import is_foreground_terminal, may_detach
from agent_dev.config.options import RunOptions
from agent_dev.diff.review_note import format_notes
from agent_dev.errors import SUCCESS, AgentDevError, RunUsageError, UsageError
from agent_dev.merge import saved_selection, session_access
from agent_dev.merge.review import open_review
from agent_dev.overlay.labels import format_count
from agent_dev.retention import automatic
from agent_dev.run.job import RunOutcome
from agent_dev.run.request import COMMAND, RunRequest
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession
from tui.source import Ending


def review_run(outcome: RunOutcome, request: RunRequest) -> int:
    """Show the changes of a session and offer to merge them; return the agent's exit code, whatever happens here."""
    try:
        _offer(outcome, request)
    except AgentDevError as error:
        warn(error.message)
        print_next_commands(outcome)
    except OSError as error:
        warn(f"cannot read the session now: {error.strerror}")
        print_next_commands(outcome)
    _finish_checkpoint(outcome)  # if the review could not be opened
    return outcome.exit_code


def _offer(outcome: RunOutcome, request: RunRequest) -> None:
    _print_notices(outcome)
    context = sessions.command_context(request.options, request.environ)
    end = frontend.ReviewEnd(outcome.exit_code)
    review = open_review(outcome.session, context.environ, with_risks=False, seen=outcome.review_cache)
    if outcome.last_checkpoint is not None:
        review.wait_until_free = outcome.last_checkpoint.wait
    try:
        if (outcome.changes or outcome.commits) and outcome.opens_review and frontend.has_screen(request.environ):
            end = frontend.review_session(review, context)
            _finish_checkpoint(outcome)
            automatic.clean_after_merge(context)
            outcome = _with_undecided_commits(outcome, review.record, request.environ)
        elif not is_quiet():
            changes.print_summary(review, len(review.folded.changes), outcome.commits)
        if review.record.get("state") == store.MERGED:
            outcome = outcome.replace(changes=0)
        if outcome.is_kept and end.ending is Ending.KEEP:
            for line in review_notes.git_lines(outcome.session, review.record, request.environ):
                if line not in outcome.kept_notice.splitlines():
                    notify(visible(line))
            print_next_commands(outcome)
    finally:
        review.close()
        _finish_checkpoint(outcome)
        store.unlock_session(outcome.session)
    automatic.clean_if_due(context)
    end_session(end, outcome.session.id, context, request.options)


def _with_undecided_commits(outcome: RunOutcome, record: store.Record, environ: dict[str, str]) -> RunOutcome:
    """Return the outcome with the number of commits that the user has neither imported nor declined."""
    if not outcome.commits:
        return outcome
    try:
        left = sum(len(commits.list_undecided(one, environ)) for one in list_repositories(outcome.session, record))
    except AgentDevError:
        return outcome  # `agent-dev commits` reports the error
    return outcome.replace(commits=left, refs=outcome.refs if left else 0)


def _print_notices(outcome: RunOutcome) -> None:
    if outcome.refreshes:
        times = "once" if outcome.refreshes == 1 else f"{outcome.refreshes} times"
        notify(f"the repository changed {times} during the run; the agent's view was refreshed")
    for message in filter(None, (outcome.kept_notice, outcome.checkpoint_error)):
        for line in message.splitlines():
            warn(visible(line))


def _finish_checkpoint(outcome: RunOutcome) -> None:
    """Wait for the checkpoint of the end, and warn once if there is none."""
    if outcome.last_checkpoint is not None and not outcome.last_checkpoint.is_finished:
        error = outcome.last_checkpoint.finish()
        if error:
            warn(error)


def review_all(context: CommandContext, options: RunOptions, *, is_plain: bool) -> int:
    """Review each waiting session of this repository, oldest first."""
    waiting = [one for one in sessions.sessions_of_repository(context) if one.state in (store.WAITING, store.KILLED)]
    if not waiting:
        warn("no waiting session for this repository")
        return SUCCESS
    codes = []
    for number, one in enumerate(waiting, 1):
        notify(f"session {one.name} ({number} of {len(waiting)})")
        locked = session_access.lock_ended(one)
        try:
            with closing(open_review(locked.session, context.environ, with_risks=False)) as review:
                end = frontend.review_session(review, context, is_plain=is_plain)
        finally:
            store.unlock_session(locked.session)
        codes.append(end.code)
        end_session(end, one.session.id, context, options)
    automatic.clean_after_merge(context)
    return max(codes)


def end_session(end: frontend.ReviewEnd, session: str, context: CommandContext, options: RunOptions) -> None:
    """Do what the user wants with the rest of a session after its review, once it is unlocked."""
    if end.ending is Ending.KEEP:
        return
    one = sessions.find_session(context, session)
    if end.ending is Ending.DISCARD:
        from agent_dev.run.finish import has_merge  # few reviews discard

        session_access.discard(context, one)
        what = f"the rest of session {one.name}" if has_merge(one.session) else f"session {one.name}"
        notify(f"{what} was discarded; agent-dev undiscard {one.name} restores it")
        return
    notes = saved_selection.load_notes(one.session.folder)
    text = format_notes(notes, one.record["roots"])
    options = options.replace(prompt="", record="")  # the file of the first run's recording exists
    request = RunRequest((), options, context.environ, COMMAND, continues=True, review_notes=text.encode())
    resume_session(one, request)


def resume_session(one: ListedSession, request: RunRequest) -> int:
    """Run a session again, show its changes, and return the agent's exit code. Raises AgentDevError if it never started."""
    if _is_detachable(one, request):
        from agent_dev.cli import detachable  # few runs

        options = request.options.replace(detachable=True)
        return detachable.run(request.replace(options=options), lambda given: _resume(one, given), guard, review_run)
    outcome = _resume(one, request.replace(reviews_next=True))
    if outcome.limit_notice:
        warn(visible(outcome.limit_notice))
    return review_run(outcome, request) if outcome.is_kept else outcome.exit_code


def _resume(one: ListedSession, request: RunRequest) -> RunOutcome:
    from agent_dev.run import resume  # the launch path: not needed by a review

    try:
        outcome = resume.resume(session_access.lock_ended(one), request, notify)
    except UsageError as error:
        raise RunUsageError(message=error.message, hint=error.hint) from None
    if request.review_notes:
        saved_selection.remove_notes(one.session.folder)  # sent
    return outcome


def _is_detachable(one: ListedSession, request: RunRequest) -> bool:
    """Return whether a session is resumed as one that can be detached: by options given now, or as it started."""
    if may_detach(request.options, request.environ):
        return True
    was_detachable = any(one.record["options"].get(name) for name in ("detachable", "detach"))
    return was_detachable and not request.options.record and all(map(is_foreground_terminal, range(3)))


def print_next_commands(outcome: RunOutcome) -> None:
    """Print the exact commands to inspect, merge and discard the session."""
    lines = [("diff", "show the changes"), ("merge", "select and apply changes")] if outcome.changes else []
    if outcome.commits:
        lines.append(("commits", f"{format_count(outcome.commits, 'commit')}; import: merge --commits"))
    elif outcome.refs:
        lines.append(("commits", f"no commits; moved branches or tags: {outcome.refs}"))
    notify(f"session {outcome.name} is waiting:")
    for verb, about in (*lines, ("discard", "move it to the trash")):
        notify(f"  {f'agent-dev {verb} {outcome.name}':<42} {about}")
