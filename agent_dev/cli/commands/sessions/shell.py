"""The subcommand `shell`, which opens the user's shell in a session's sandbox."""

from agent_dev.cli.commands.sessions.exec import ABOUT, DEFAULT, find_session_to_enter, run_in_session
from agent_dev.cli.parser import make_session_parser
from agent_dev.config.options import RunOptions
from agent_dev.run import command_in_session
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `shell`."""
    args = make_session_parser("shell", ABOUT.format("Open your shell"), default=DEFAULT).parse_args(argv)
    one = find_session_to_enter(args.session, context, "agent-dev shell {}")
    return run_in_session(one, (command_in_session.shell_of(context.environ),), context, options)
