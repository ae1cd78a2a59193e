"""The subcommand `checkpoint`."""

from agent_dev.checkpoint import operations
from agent_dev.cli.commands.sessions.checkpointed_session import find_locked
from agent_dev.cli.console import warn
from agent_dev.cli.parser import add_session_argument, make_parser
from agent_dev.cli.render import checkpoints as output
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.progress import show_progress
from agent_dev.sanitize import visible
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext

_JSON = "print one JSON document"


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `checkpoint`."""
    about = "Record the current state of a session, running or ended, to roll back to."
    parser = make_parser("checkpoint", about, "agent-dev checkpoint -m 'before the big rename'")
    add_session_argument(parser)
    parser.add_argument("-m", "--message", default="", metavar="TEXT", help="describe the checkpoint")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(argv)
    one, is_locked = find_locked(context, args.session)
    try:
        with show_progress("taking a checkpoint"):
            taken = operations.take_manual(one, message=args.message)
    finally:
        if is_locked:
            store.unlock_session(one.session)
    output.print_taken(one, taken, as_json=args.json)
    for problem in taken.problems:
        warn(f"problem: {visible(problem)}")
    return SUCCESS
