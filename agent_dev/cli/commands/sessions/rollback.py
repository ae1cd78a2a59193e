"""The subcommand `rollback`, which rolls a session or some of its paths back to a checkpoint."""

from agent_dev.checkpoint import operations, rollback
from agent_dev.cli.parser import make_parser, relative_to_root
from agent_dev.cli.render import checkpoints as output
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.merge import session_access
from agent_dev.progress import show_progress
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext

_JSON = "print one JSON document"


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `rollback`."""
    about = "Roll a session or some of its paths back to a checkpoint. A checkpoint is taken first; the real tree is not touched."
    parser = make_parser("rollback", about, "agent-dev rollback 3 src/main.py")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the number of the checkpoint (agent-dev checkpoints)")
    parser.add_argument(
        "paths", nargs="*", default=[], metavar="PATH", help="roll back only these paths and everything below them"
    )
    parser.add_argument("--session", default="", metavar="SESSION", help="an id or --name; default: the newest here")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(argv)
    number = _checkpoint_number(args.checkpoint)
    return roll_back(context, (args.session, number), tuple(args.paths), as_json=args.json)


def roll_back(context: CommandContext, target: tuple[str, int], typed: tuple[str, ...], *, as_json: bool) -> int:
    """Roll the named session back to a checkpoint; with `typed`, only these paths."""
    name, number = target
    one = sessions.find_session(context, name)
    sessions.require_overlay(one)
    paths = tuple(relative_to_root(path, context, one) for path in typed)
    if paths:
        operations.require_known_paths(one, paths, operations.list_checkpoints(one, number))
    with show_progress("rolling back"):
        if one.state == store.RUNNING:
            result = rollback.roll_back_live(one, number, paths)
        else:
            one = session_access.lock_ended(one)
            try:
                result = rollback.roll_back_ended(one, number, paths)
            finally:
                store.unlock_session(one.session)
    output.print_rollback(one, result, as_json=as_json)
    return FAILURE if result.problems else SUCCESS


def _checkpoint_number(argument: str) -> int:
    if not argument.isdecimal():
        raise UsageError(message=f"rollback: {argument!r} is not a checkpoint number", hint="agent-dev checkpoints lists them")
    return int(argument)
