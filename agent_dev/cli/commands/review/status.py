"""The subcommand `status`. It imports no modules for merging."""

from agent_dev.cli.commands.review.open_review import open_unjudged
from agent_dev.cli.commands.review.session_commits import read_commits, read_submodule_changes
from agent_dev.cli.parser import add_color_argument, add_session_argument, make_parser
from agent_dev.cli.render import changes as output
from agent_dev.cli.render.colour import choose_palette
from agent_dev.cli.review_notes import add_review_notes
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.quick_dataclass import replace
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `status`."""
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
        changes = review.assess_with_counts(is_limited=not args.json)
        submodules = read_submodule_changes(review, context, made_commits)
        postponed, is_applied = review.assessor.postponed, review.is_already_applied()
        contents = output.SessionContents(changes, made_commits, submodules, postponed, is_already_applied=is_applied)
        output.print_status(replace(one, record=review.record), contents, as_json=args.json, palette=palette)
    return SUCCESS
