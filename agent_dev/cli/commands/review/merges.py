"""The subcommand `merges`."""

from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import undo as output
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.merge import history
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `merges`."""
    parser = make_parser("merges", "List the merges of this repository and their state, newest last.", "agent-dev merges")
    parser.add_argument("--all", action="store_true", help="list those of all repositories")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    found = history.list_merges(context, every=args.all)
    if args.json:
        output.print_merges_as_json(history.with_changes(context, one) for one in found)
    else:
        output.print_merges(found, with_roots=args.all)
    return SUCCESS
