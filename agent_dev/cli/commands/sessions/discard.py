"""The subcommand `discard`."""

from agent_dev.cli.ask_session import ask_session
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render.format import print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.merge import session_access
from agent_dev.retention import clean
from agent_dev.session import sessions
from agent_dev.session.sessions import CommandContext

_ABOUT = "ids or names; default: the open one here; of several, agent-dev asks"


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `discard`."""
    parser = make_parser("discard", "Move sessions to the trash without merging them.", "agent-dev discard fix-2 fix-3")
    parser.usage = "agent-dev discard [OPTIONS] [SESSION…]"
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help=_ABOUT)
    names = parser.parse_args(argv).sessions or [_name_to_discard(context)]
    found = {one.session.id: one for one in (sessions.find_session(context, name, sessions.OPEN, damaged=True) for name in names)}
    for one in found.values():
        path = session_access.discard(context, one)
        print_outcome(f"session {one.name} moved to the trash: {path}")
    clean.expire_trash(context)
    return SUCCESS


def _name_to_discard(context: CommandContext) -> str:
    """Return the id of the session that the user selects from several, else "". Raises UsageError without an answer."""
    found = [one for one in sessions.sessions_of_repository(context) if not one.problem]
    if len(found) <= 1:
        return ""
    return ask_session(found, ("open", "discard", "discarded"), f"agent-dev discard {found[-1].name}").session.id
