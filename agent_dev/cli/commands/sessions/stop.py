"""The subcommand `stop`."""

from agent_dev.cli.ask_session import ask_running_session
from agent_dev.cli.parser import make_session_parser
from agent_dev.cli.render.format import command_rows, print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.merge import session_access
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `stop`."""
    about = "Stop a running session; its changes are kept."
    args = make_session_parser("stop", about, default="the running one here").parse_args(argv)
    if args.session:
        one = sessions.find_session(context, args.session)
    else:
        one = ask_running_session(context, "agent-dev stop {}", ("stop", "stopped"))
    ended = session_access.stop(context, one)
    if one.state != store.RUNNING:
        print_outcome(f"session {one.name} was not running; it is {ended.state}")
    elif store.is_direct(one.record):
        print_outcome(f"session {one.name} stopped; its changes are in the real tree")
        for row in command_rows("to list them", "agent-dev restore --dry-run"):
            print_outcome(row)
    elif not ended.state:
        print_outcome(f"session {one.name} stopped; it had no changes and was removed")
    else:
        print_outcome(f"session {one.name} stopped; its changes are kept")
        for row in command_rows("to select and apply them", f"agent-dev merge {one.name}"):
            print_outcome(row)
    return SUCCESS
