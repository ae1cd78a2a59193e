"""The subcommand `undo`."""

import argparse
import os

from agent_dev.cli.console import warn
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import undo as output
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.merge import undo
from agent_dev.progress import show_progress
from agent_dev.session.sessions import CommandContext


def require_merge(name: str, context: CommandContext) -> None:
    """Raise UsageError if there is no such merge."""
    if name and ("/" in name or not os.path.isdir(f"{context.store.merges}/{name}")):
        raise UsageError(message=f"no merge {name} here", hint="agent-dev merges lists them")


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `undo`."""
    about = "Revert a merge, except in files that you changed since. The changes return to the session."
    parser = make_parser("undo", about, "agent-dev undo")
    parser.add_argument(
        "merge", nargs="?", default="", metavar="MERGE", help="a merge (agent-dev merges lists them); default: the newest here"
    )
    three_way = "in files that you changed since, revert the merge and keep your changes, unless they conflict"
    parser.add_argument("--three-way", action="store_true", help=three_way)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    require_merge(args.merge, context)
    with show_progress("undoing the merge"):
        result = undo.undo(context, args.merge, warn, is_three_way=args.three_way)
    return print_result(result, args, output.UNDONE)


def print_result(result: undo.UndoResult, args: argparse.Namespace, verb: str) -> int:
    """Print the result of an undo or redo, and return the exit code."""
    output.print_undo(result, as_json=args.json, verb=verb, named=args.merge)
    return FAILURE if result.skipped else SUCCESS
