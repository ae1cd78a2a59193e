"""Compare the attempts of `tx --best` on the screen, and open the review of those that the user selects."""

import sys
from contextlib import ExitStack, closing

from agent_dev.cli import post_run_review
from agent_dev.cli.console import warn
from agent_dev.cli.render import best as output
from agent_dev.cli.screen import frontend, subprocess_screen
from agent_dev.config.options import RunOptions
from agent_dev.errors import AgentDevError
from agent_dev.merge import history, session_access
from agent_dev.merge.comparison.compare_sessions import compare_sessions
from agent_dev.merge.review import Review, open_review
from agent_dev.overlay import patch_write
from agent_dev.overlay.labels import patch_path
from agent_dev.overlay.patch_write import DISPLAY_FORMAT
from agent_dev.retention import automatic
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext
from agent_dev.transaction.best import BestChoice, ScoredAttempt
from tui.comparison.screen import run_comparison
from tui.comparison.table import ComparedRow, Comparison
from tui.model.document import PageLine, Tone
from tui.source import Ending

_MAX_LINES = 5000  # of a diff on the screen
_TONES = {"+": Tone.ADDED, "-": Tone.REMOVED, "@": Tone.HEADING}


def compare_attempts(choice: BestChoice, context: CommandContext, options: RunOptions) -> bool:
    """Show the comparison until the user quits or has merged an attempt; return whether one was merged or sent back."""
    row = next(number for number, one in enumerate(choice.attempts) if one is choice.best)
    while True:
        selected = _select(make_comparison(choice, row), choice, context)
        if selected is None:
            return False
        row = selected
        if _review(choice.attempts[row], context, options):
            return True


def make_comparison(choice: BestChoice, cursor: int) -> Comparison:
    """Return what the screen shows."""
    head, *lines = output.table_lines(choice, sys.maxsize)  # cut by the screen
    rows = [
        ComparedRow(line, _details(one), has_session=bool(one.result.session), is_best=one is choice.best)
        for one, line in zip(choice.attempts, lines, strict=True)
    ]
    return Comparison(head, tuple(rows), visible(choice.reason), cursor)


def _details(one: ScoredAttempt) -> tuple[str, ...]:
    """Return what the screen shows about the attempt under the cursor."""
    place = f" on {one.host}" if one.host else ""
    session = f"session {one.name}" if one.result.session else "no session"
    return visible(f"{session}{place}: {output.outcome_text(one)}"), *map(visible, _steps(one))


def _steps(one: ScoredAttempt) -> tuple[str, ...]:
    checks = one.result.steps[1:]
    return tuple(f"{step.argv[-1]}: exited with status {step.code}, {step.milliseconds / 1000:.1f} s" for step in checks)


def _select(comparison: Comparison, choice: BestChoice, context: CommandContext) -> int | None:
    """Show the screen; return the row of the attempt that the user selected."""

    def read_diff(row: int) -> tuple[PageLine, ...]:
        assert choice.best is not None  # noqa: S101  (without a best one there is no screen)
        try:
            return _diff_lines(choice.best, choice.attempts[row], context)
        except AgentDevError as error:
            return (PageLine(Tone.ERROR, visible(error.message)),)

    def work() -> tuple[int, str]:
        code, row = run_comparison(comparison, read_diff, context.profile.theme)
        return code, "" if row is None else str(row)

    _, word = subprocess_screen.run_in_child(work, warn, "the sessions are kept")
    return int(word) if word else None


def _diff_lines(best: ScoredAttempt, other: ScoredAttempt, context: CommandContext) -> tuple[PageLine, ...]:
    """Return the patch from the result of the best attempt to that of another. Raises AgentDevError."""
    with ExitStack() as stack:
        before, after = (stack.enter_context(closing(_open(one, context))) for one in (best, other))
        lines: list[PageLine] = []
        for one in compare_sessions(before, after):
            path = patch_path(one.change.key, after.record["roots"])
            patch = patch_write.change_patch(one.change, path, one.before, one.after, DISPLAY_FORMAT)
            lines += [_line(raw) for raw in patch.removesuffix(b"\n").split(b"\n")]
            if len(lines) > _MAX_LINES:
                command = f"agent-dev diff {other.name} --against {best.name}"
                return (*lines[:_MAX_LINES], PageLine(Tone.DIM, f"… {command} shows the rest"))
        return tuple(lines) or (PageLine(Tone.DIM, "no differences"),)


def _line(raw: bytes) -> PageLine:
    text = visible(raw, tab="    ")
    return PageLine(_TONES.get(text[:1], Tone.STRONG if text.startswith("diff --git ") else Tone.PLAIN), text)


def _open(one: ScoredAttempt, context: CommandContext) -> Review:
    found = session_access.lock_ended(sessions.find_session(context, one.result.session))
    try:
        return open_review(found.session, context.environ, with_risks=False)
    finally:
        store.unlock_session(found.session)


def _review(one: ScoredAttempt, context: CommandContext, options: RunOptions) -> bool:
    """Open the review of an attempt; return whether it ends the comparison."""
    try:
        found = session_access.lock_ended(sessions.find_session(context, one.result.session))
    except AgentDevError as error:
        warn(error.message)
        return False
    try:
        with closing(open_review(found.session, context.environ, with_risks=False)) as review:
            end = frontend.review_session(review, context)
    finally:
        store.unlock_session(found.session)
    automatic.clean_after_merge(context)
    post_run_review.end_session(end, found.session.id, context, options)
    return end.ending is not Ending.KEEP or any(merge.session == found.session.id for merge in history.list_merges(context))
