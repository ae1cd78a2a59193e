"""The subcommand `diff`."""

import argparse
import os
import re

from agent_dev.cli import selection_flags
from agent_dev.cli.commands.open_session import find_with_commits
from agent_dev.cli.commands.review import diff_commits
from agent_dev.cli.commands.review.open_review import open_for_reading
from agent_dev.cli.console import warn
from agent_dev.cli.parser import add_color_argument, make_parser, relative_to_root
from agent_dev.cli.render import changes as output
from agent_dev.cli.render import colour, pager
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UsageError
from agent_dev.merge import session_access
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext

_SPAN = re.compile(r"\d+\.\.\d*")


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `diff`."""
    parser = make_parser("diff", "Print the changes of a session as a patch.", "agent-dev diff src/ >work.patch")
    parser.usage = "agent-dev diff [OPTIONS] [SESSION] [COMMIT|A..B] [PATH…]"
    text = (
        "a session (default: the newest here), then a commit id, A..B (ids, HEAD) or checkpoints 1..2 (1..: to now), then paths"
    )
    parser.add_argument("words", nargs="*", metavar="[SESSION] [PATH…]", help=text)
    text = "print the patch from the result of this session to that of the other one"
    parser.add_argument("--against", default="", metavar="SESSION", help=text)
    parser.add_argument("--stat", action="store_true", help="print a diffstat instead of a patch")
    parser.add_argument("--hunks", action="store_true", help="number the hunks for merge --take PATH:1,3")
    text = f"{colour.HELP}; coloured output is escaped and cannot be applied as a patch"
    add_color_argument(parser, text)
    parser.add_argument("--no-pager", action="store_true", help="do not use $PAGER (less)")
    index = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_intermixed_args(argv[:index])
    names = [*args.words, *argv[index + 1 :]]
    session = _pop_session(names, args, context)
    if args.against:
        from agent_dev.cli.commands.review import diff_sessions  # rare

        diff_sessions.print_session_diff(session, names, context, args)
        return SUCCESS
    first = names[0] if len(names) > len(argv[index + 1 :]) else ""  # after `--` there are only paths
    if os.path.lexists(os.path.join(context.cwd, first)):
        first = ""
    if _SPAN.fullmatch(first):
        return _diff_checkpoints(sessions.find_session(context, session), names, context, args)
    if diff_commits.REVISIONS.fullmatch(first):
        one = find_with_commits(session, context)
        try:
            diff_commits.print_commit_diff(one, names, context, args)
            return SUCCESS
        except UsageError:
            if not _has_changed(first, one, context):
                raise
    return _diff_paths(sessions.find_session(context, session), names, context, args)


def _has_changed(path: str, one: sessions.ListedSession, context: CommandContext) -> bool:
    """Return whether a session has a change of a path, which may be named like a commit."""
    return os.path.lexists(f"{one.session.root(0, '').upper}/{relative_to_root(path, context, one)}")


def _diff_paths(one: sessions.ListedSession, names: list[str], context: CommandContext, args: argparse.Namespace) -> int:
    sessions.require_overlay(one)
    files = () if args.stat else tuple(os.path.normpath(os.path.join(context.cwd, name)) for name in names)
    with open_for_reading(one, context, files) as review:
        try:
            keys = selection_flags.resolve_paths(names, review, context)
        except UsageError:
            diff_commits.refuse_revisions(names[0])
            raise
        skipped = ""
        with pager.open_output(context.environ, args.color, has_pager=not (args.no_pager or args.stat)) as shown:
            skipped = output.print_diff(review, keys, shown, is_stat=args.stat, with_hunks=args.hunks)
    if skipped:
        warn(skipped)
    return SUCCESS


def _pop_session(names: list[str], args: argparse.Namespace, context: CommandContext) -> str:
    """Remove the name of a session from the arguments and return its id; "" if the first one is none."""
    found = sessions.find_by_name(context, names[0]) if args.words else None
    if found is None:
        return ""
    del names[0]
    return found.session.id


def _diff_checkpoints(one: sessions.ListedSession, names: list[str], context: CommandContext, args: argparse.Namespace) -> int:
    """Print the changes between two checkpoints of a session; `names`: these, and paths."""
    from agent_dev.checkpoint import compare  # not needed for the diff of a session, as the next one
    from agent_dev.cli.render import checkpoints as history_output

    first, _, second = names[0].partition("..")
    paths = tuple(relative_to_root(path, context, one) for path in names[1:])
    is_locked = one.state != store.RUNNING
    one = session_access.lock_ended(one) if is_locked else one
    try:
        found = compare.compare_checkpoints(one, int(first), int(second or 0), paths)
    finally:
        if is_locked:
            store.unlock_session(one.session)
    skipped = ""
    with pager.open_output(context.environ, args.color, has_pager=not (args.no_pager or args.stat)) as shown:
        skipped = history_output.print_comparison(found, one.record, shown, is_stat=args.stat)
    if skipped:
        warn(skipped)
    return SUCCESS
