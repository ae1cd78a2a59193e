"""The subcommands `status`, `sessions` and `watch`. The first two import nothing of merging."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_dev.cli.commands.review.open_review import open_unjudged
from agent_dev.cli.commands.review.session_commits import read_commits, read_submodule_changes
from agent_dev.cli.parser import Verb, add_color_argument, add_session_argument, make_parser
from agent_dev.cli.render import changes as output
from agent_dev.cli.render.colour import choose_palette
from agent_dev.cli.review_notes import add_review_notes
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.session import discarded, sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession

if TYPE_CHECKING:
    from agent_dev.session.shared_changes import SharedChange


def _status(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    parser = make_parser("status", "Show a session's changes with their risks, and its commits.", "agent-dev status --json")
    add_session_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_color_argument(parser)
    args = parser.parse_args(argv)
    palette = choose_palette(context.environ, args.color)
    one = sessions.find_session(context, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    with open_unjudged(one, context) as review:
        add_review_notes(review, context)
        made_commits = read_commits(review, context)
        contents = output.SessionContents(
            review.assess_with_counts(), made_commits, read_submodule_changes(review, context, made_commits)
        )
        output.print_status(replace(one, record=review.record), contents, as_json=args.json, palette=palette)
    return SUCCESS


def _sessions(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    if argv[:1] == ["rename"]:
        from agent_dev.cli.commands.rename_session import rename_session  # it imports modules of merging

        return rename_session(argv[1:], context)
    parser = make_parser("sessions", "List the running and waiting sessions of this repository.", "agent-dev sessions --all")
    parser.usage = "agent-dev sessions [-h] [--all] [--json]\n       agent-dev sessions rename [SESSION] NAME"
    parser.add_argument("--all", action="store_true", help="list those of all repositories, and merged and discarded ones")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_color_argument(parser)
    args = parser.parse_args(argv)
    found = sessions.sessions_of_repository(context, every=args.all)
    if args.all:
        found = (*discarded.list_discarded(context.store), *found)
    palette = choose_palette(context.environ, args.color)
    shared = _shared_changes(found, context)
    output.print_sessions(found, shared, as_json=args.json, with_roots=args.all, palette=palette)
    return SUCCESS


def _shared_changes(found: Sequence[ListedSession], context: CommandContext) -> "tuple[SharedChange, ...]":
    """Return the files that several of the sessions have changed."""
    if sum(one.state in sessions.OPEN for one in found) < 2:
        return ()
    from agent_dev.session import shared_changes  # rare

    return shared_changes.find_shared_changes(found, context.environ)


def _watch(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    from agent_dev.cli.watch import command  # imports what the others do not need

    return command.run(argv, context)


VERBS: dict[str, Verb] = {"status": _status, "sessions": _sessions, "watch": _watch}
