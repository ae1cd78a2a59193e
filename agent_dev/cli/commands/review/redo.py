"""The subcommand `redo`."""

from agent_dev.cli.commands.review.undo import print_result, require_merge
from agent_dev.cli.console import warn
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import undo as output
from agent_dev.config.options import RunOptions
from agent_dev.merge import undo
from agent_dev.progress import show_progress
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `redo`."""
    parser = make_parser("redo", "Apply an undone merge again.", "agent-dev redo")
    parser.add_argument(
        "merge",
        nargs="?",
        default="",
        metavar="MERGE",
        help="a merge (agent-dev merges lists them); default: the one undone last",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    require_merge(args.merge, context)
    with show_progress("merging again"):
        result = undo.redo(context, args.merge, warn)
    return print_result(result, args, output.REDONE)
