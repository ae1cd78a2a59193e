"""Choose the review screen, plain prompts or printed commands, by the terminal and the flags."""

import os
import sys
from typing import NamedTuple

from agent_dev.cli.console import notify, warn
from agent_dev.cli.review_notes import add_review_notes
from agent_dev.cli.screen import subprocess_screen
from agent_dev.cli.screen.lines import StandardLines
from agent_dev.cli.screen.screen_settings import load_screen_settings
from agent_dev.errors import FAILURE, SUCCESS, AgentDevError
from agent_dev.merge.review import Review, open_review
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession
from tui.source import Ending, OperationResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_dev.cli.screen.conflict_source import ConflictSource, ImportFunction
    from agent_dev.cli.screen.review_source import ReviewSource
    from agent_dev.commits.import_result import ImportResult


ALREADY_APPLIED = "all changes of this session are already in the working tree"


class ReviewEnd(NamedTuple):
    """The end of a review: the exit code, and what happens to the rest of the session."""

    code: int
    ending: Ending = Ending.KEEP


def has_screen(environ: dict[str, str]) -> bool:
    """Return whether the terminal can show the review screen."""
    if not (os.isatty(0) and os.isatty(2)) or environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    from tui.terminal.terminal_setup import can_show_screen

    return can_show_screen(environ, sys.stdin, sys.__stderr__)


def review_session(review: Review, context: CommandContext, *, is_plain: bool = False) -> ReviewEnd:
    """Let the user select and apply changes; on a terminal without a screen print the commands for it."""
    if not (review.changes.changes or review.changes.problems or _has_commits(review, context, is_plain=is_plain)):
        if review.is_already_applied():
            notify(ALREADY_APPLIED)
            return ReviewEnd(SUCCESS, Ending.DISCARD)
        notify("nothing to merge")
        return ReviewEnd(SUCCESS)
    if is_plain:
        return _prompt(review, context)
    if not has_screen(context.environ):
        from agent_dev.cli.render import changes

        changes.print_summary(review, len(review.folded.changes), 0)
        warn("this terminal cannot show the review screen; use merge --all, --take PATH or --plain")
        return ReviewEnd(FAILURE)
    # Subcommands that only print do not import the screen.
    from tui.app import run_review as run_screen

    settings = load_screen_settings(context)
    add_review_notes(review, context)

    def run() -> tuple[int, str]:
        source = _make_source(review, context)
        code, ending = run_screen(source, settings)
        return _report(source, code, is_sent_back=ending is Ending.SEND_BACK), ending.value

    code, ending = subprocess_screen.run_in_child(run, warn)
    review.record = store.read_record(review.session)  # the child process updated it after its merge
    return ReviewEnd(code, Ending(ending or Ending.KEEP))


def _has_commits(review: Review, context: CommandContext, *, is_plain: bool) -> bool:
    """Return whether a session without changed files has commits that the screen or prompts can show."""
    from agent_dev.cli.screen import commits_reader

    return (is_plain or has_screen(context.environ)) and any(one.id for one in commits_reader.list_commits(review))


def resolve_conflicts(review: Review, context: CommandContext, stopped: "ImportResult", retry: "ImportFunction") -> int:
    """Let the user resolve conflicts of commits and then import them."""
    from agent_dev.cli.screen.conflict_source import ConflictSource
    from tui.app import run_review as run_screen

    settings = load_screen_settings(context)
    name_and_root = (str(review.record["name"] or review.session.id), str(review.record["root"]))

    def run() -> tuple[int, str]:
        source = ConflictSource(stopped, retry, name_and_root, context.environ, review.session.folder)
        code, ending = run_screen(source, settings)
        return _report(source, code or FAILURE), ending.value  # quit without resolving: nothing was imported

    code, _ = subprocess_screen.run_in_child(run, warn)
    review.record = store.read_record(review.session)
    return code


def _report(source: "ReviewSource | ConflictSource", code: int, *, is_sent_back: bool = False) -> int:
    """Print the result and return the exit code."""
    last: ReviewSource | ConflictSource | None = source
    ended = None
    while last is not None:
        ended, last = last.result or ended, last.next_conflicts()
    if ended is not None:
        return _report_end(ended)
    if not is_sent_back:
        notify("nothing was merged")
    return code


def _report_end(ended: OperationResult) -> int:
    """Print the result of a merge, with `-q` only if it is incomplete; return the exit code."""
    for line in ended.lines:
        (warn if ended.code else notify)(line)
    return ended.code


def _prompt(review: Review, context: CommandContext) -> ReviewEnd:
    """Prompt for the commits, then for the remaining files."""
    from tui.plain import commits

    ended = commits.ask_commits(_make_source(review, context), StandardLines())
    if ended is None:
        return _prompt_files(review, context) if review.changes.changes or review.changes.problems else ReviewEnd(SUCCESS)
    _report_end(ended)
    review.record = store.read_record(review.session)
    if review.record["state"] not in (store.WAITING, store.KILLED):
        return ReviewEnd(ended.code)
    remaining = open_review(review.session, context.environ, with_risks=False)  # files of imported commits are no longer changes
    try:
        end = _prompt_files(remaining, context) if remaining.changes.changes else ReviewEnd(SUCCESS)
        return end._replace(code=max(ended.code, end.code))
    finally:
        remaining.close()


def _prompt_files(review: Review, context: CommandContext) -> ReviewEnd:
    from tui.plain import review as plain

    return ReviewEnd(*plain.ask_changes(_make_source(review, context), StandardLines()))


def _make_source(review: Review, context: CommandContext) -> "ReviewSource":
    from agent_dev.cli.screen.review_source import ReviewSource

    profile = context.profile
    return ReviewSource(review, context.store, with_trailers=profile.commit_trailers, many_deletions=profile.many_deletions)


def watch_session(one: ListedSession, context: CommandContext) -> int:
    """Show the changes of a running session; nothing can be selected."""
    if not has_screen(context.environ):
        raise AgentDevError(
            message=f"session {one.name} is still running", hint=f"wait until it ends, or agent-dev stop {one.name}"
        )
    from agent_dev.cli.screen.review_source import LiveSource
    from tui.app import run_review as run_screen

    source = LiveSource(one.session, context)
    try:
        return run_screen(source, load_screen_settings(context))[0]
    finally:
        source.close()
