"""The subcommand `checkpoints`."""

from agent_dev.checkpoint import operations
from agent_dev.cli.commands.sessions.checkpointed_session import report_damaged
from agent_dev.cli.commands.sessions.rollback import roll_back
from agent_dev.cli.parser import add_session_argument, make_parser, relative_to_root
from agent_dev.cli.render import checkpoints as output
from agent_dev.cli.render.format import print_line, session_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UsageError
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext

_JSON = "print one JSON document"


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `checkpoints`."""
    about = "List a session's checkpoints: time, cause, and how much changed since the previous one."
    parser = make_parser("checkpoints", about, "agent-dev checkpoints --of src/main.py")
    add_session_argument(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)
    parser.add_argument("--of", default="", metavar="FILE", help="list the versions of one file")
    parser.add_argument("--restore", type=int, default=0, metavar="K", help="with --of: restore the version in checkpoint K")
    parser.add_argument("--thin", action="store_true", help="prune checkpoints by the retention rules")
    parser.add_argument("--dry-run", action="store_true", help="with --thin: only list what would be pruned")
    args = parser.parse_args(argv)
    if (args.dry_run and not args.thin) or (args.restore and not args.of):
        message = "--dry-run requires --thin" if args.dry_run else "--restore requires --of FILE"
        raise UsageError(message=message, hint="agent-dev checkpoints --help")
    one = sessions.find_session(context, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if args.restore:
        return roll_back(context, (args.session, args.restore), (args.of,), as_json=args.json)
    report_damaged(one)
    if args.thin:
        gone = operations.prune(context, one, is_dry=args.dry_run)
        output.print_pruned(one, gone, is_dry=args.dry_run, as_json=args.json)
    elif args.of:
        output.print_versions(operations.file_versions(one, relative_to_root(args.of, context, one)), as_json=args.json)
    else:
        if not (args.session or args.json):
            print_line(session_line(one))
        output.print_checkpoints(one, operations.list_checkpoints(one), as_json=args.json)
    return SUCCESS
