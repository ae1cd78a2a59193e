"""`diff SESSION --against SESSION`: the patch from the result of one session to that of another."""

import argparse

from agent_dev.cli import selection_flags
from agent_dev.cli.commands.review.open_review import open_for_reading
from agent_dev.cli.console import warn
from agent_dev.cli.render import checkpoints as output
from agent_dev.cli.render import pager
from agent_dev.errors import UsageError
from agent_dev.fs.entry import Key
from agent_dev.merge.comparison.compare_sessions import compare_sessions
from agent_dev.merge.review import Review
from agent_dev.session import sessions
from agent_dev.session.sessions import CommandContext


def print_session_diff(name: str, paths: list[str], context: CommandContext, args: argparse.Namespace) -> None:
    """Print the patch from the session `args.against` to the named one. Raises UsageError."""
    if args.hunks:
        raise UsageError(message="--hunks does not apply to --against", hint="agent-dev diff SESSION --hunks")
    one, other = sessions.find_session(context, name), sessions.find_session(context, args.against)
    if one.session.id == other.session.id:
        raise UsageError(message=f"--against {args.against} is the same session", hint="agent-dev sessions lists all")
    for each in (one, other):
        sessions.require_overlay(each)
    with open_for_reading(other, context) as before, open_for_reading(one, context) as after:
        keys = [key for path in paths for key in _resolve(path, (after, before), context)] if paths else None
        found = compare_sessions(before, after, keys)
        skipped = ""
        with pager.open_output(context.environ, args.color, has_pager=not (args.no_pager or args.stat)) as shown:
            skipped = output.print_comparison(found, one.record, shown, is_stat=args.stat)
    if skipped:
        warn(skipped)


def _resolve(path: str, reviews: tuple[Review, Review], context: CommandContext) -> tuple[Key, ...]:
    """Return the key of a path that one of the sessions changed. Raises UsageError."""
    try:
        return selection_flags.resolve_paths([path], reviews[0], context)
    except UsageError:
        return selection_flags.resolve_paths([path], reviews[1], context)
