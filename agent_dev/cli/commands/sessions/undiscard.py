"""The subcommand `undiscard`."""

from agent_dev.cli.console import warn
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render.format import print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.session import discarded
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `undiscard`."""
    parser = make_parser("undiscard", "Restore a discarded session from the trash.", "agent-dev undiscard fix-login")
    about = "an id or --name; default: the newest of this repository"
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help=about)
    args = parser.parse_args(argv)
    found = discarded.find_discarded(context, args.session)
    one = discarded.undiscard(context, found)
    if one.record["name"] != found.record["name"]:
        warn(f"an open session is already named {found.name}; the restored session has no name")
    print_outcome(f"session {one.name} is {one.state}")
    return SUCCESS
