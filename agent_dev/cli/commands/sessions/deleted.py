"""The subcommand `deleted`, which lists and restores deleted files."""

from agent_dev.checkpoint import deleted_files
from agent_dev.cli.commands.sessions.checkpointed_session import find_locked, report_damaged
from agent_dev.cli.parser import add_session_argument, make_parser, relative_to_root
from agent_dev.cli.render import checkpoints as output
from agent_dev.cli.render.format import print_line, session_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext

_JSON = "print one JSON document"


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `deleted`."""
    about = "List the files deleted in a session that can be restored from a checkpoint or the repository."
    parser = make_parser("deleted", about, "agent-dev deleted --restore src/main.py")
    add_session_argument(parser)
    parser.add_argument("--restore", default="", metavar="PATH", help="restore PATH and everything below it")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(argv)
    one, is_locked = find_locked(context, args.session)
    try:
        report_damaged(one)
        if not args.restore:
            if not (args.session or args.json):
                print_line(session_line(one))
            output.print_deleted(one, deleted_files.list_deleted(one), as_json=args.json)
            return SUCCESS
        result = deleted_files.restore_deleted(one, relative_to_root(args.restore, context, one))
    finally:
        if is_locked:
            store.unlock_session(one.session)
    output.print_restored(one, result, as_json=args.json)
    return FAILURE if result.problems else SUCCESS
