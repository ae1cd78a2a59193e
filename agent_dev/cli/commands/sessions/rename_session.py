"""The subcommand `sessions rename`."""

from agent_dev.cli.options import check_session_name
from agent_dev.cli.parser import add_session_argument, make_parser
from agent_dev.cli.render.format import print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.merge import session_access
from agent_dev.session import session_names, sessions, store
from agent_dev.session.sessions import CommandContext


def rename_session(argv: list[str], context: CommandContext) -> int:
    """Rename a session that has ended."""
    example = "agent-dev sessions rename 261121-030926-869c fix-login"
    parser = make_parser("sessions rename", "Rename a session that has ended.", example)
    add_session_argument(parser)
    parser.add_argument("name", metavar="NAME", help="the new name: letters, digits, `.`, `-` and `_`")
    args = parser.parse_args(argv)
    check_session_name(args.name, hint=f"agent-dev sessions rename {args.session or 'SESSION'} fix-login")
    one = sessions.find_session(context, args.session)
    session_names.require_unused_name(RunOptions(name=args.name, directory=context.cwd), context.environ, prefix="")
    session = session_access.lock_ended(one).session
    try:
        store.write_record(session, {**store.read_record(session), "name": args.name})
    finally:
        store.unlock_session(session)
    print_outcome(f"session {one.name} is now {args.name}")
    return SUCCESS
