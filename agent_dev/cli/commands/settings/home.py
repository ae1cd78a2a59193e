"""The subcommand `home`."""

import argparse

from agent_dev.agents import catalogue
from agent_dev.cli.commands.settings import home_import
from agent_dev.cli.console import warn
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import home as output
from agent_dev.config import load, validators
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UsageError
from agent_dev.home import manage
from agent_dev.linux import users
from agent_dev.sanitize import visible
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `home`."""
    about = "Show which files of the agent home run automatically, or its changes; reset it; or copy your own files to it."
    parser = make_parser("home", about, "agent-dev home --reset --keep-login")
    parser.add_argument(
        "agents", nargs="*", default=[], metavar="AGENT", help="the agent whose home to use, if profiles have separate homes"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--diff", action="store_true", help="list the changes since the last session started")
    group.add_argument("--reset", action="store_true", help="move the home to the trash")
    group.add_argument(
        "--import", action="store_true", dest="importing", help="list files of your own agents that can be copied to it, and ask"
    )
    parser.add_argument("--keep-login", action="store_true", help="with --reset: keep the agents' logins")
    home_import.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    if args.keep_login and not args.reset:
        raise UsageError(message="--keep-login requires --reset", hint="agent-dev home --reset --keep-login")
    home_import.check_arguments(args)
    if args.importing:
        return home_import.run_import(args, context, options)
    return _show_home(args, context, options)


def _show_home(args: argparse.Namespace, context: CommandContext, options: RunOptions) -> int:
    if len(args.agents) > 1:
        raise UsageError(message="home: only --import takes several agents", hint="agent-dev home --help")
    agent = next(iter(args.agents), "")
    _check_profile(agent, context, is_reset=args.reset)
    if args.reset:
        logins = catalogue.login_files(context.environ) if args.keep_login else None
        output.print_reset(manage.reset_home(context, options, agent, logins), as_json=args.json)
    elif args.diff:
        output.print_changes(manage.diff_home(context, options, agent), as_json=args.json)
    else:
        output.print_home(manage.inspect_home(context, options, agent), as_json=args.json)
    return SUCCESS


def _check_profile(agent: str, context: CommandContext, *, is_reset: bool) -> None:
    """Warn that a name is not a profile, so that the shared home is shown; refuse to reset a home by a mistyped name."""
    known = [name for name, _, _ in load.list_profiles(users.home_directory(context.environ), context.environ)] if agent else []
    if agent and agent not in known and is_reset:
        message = f"no profile {visible(agent)}{validators.did_you_mean(agent, known)}; nothing was reset"
        raise UsageError(message=message, hint="agent-dev home --reset resets the home of commands without a profile")
    if agent and agent not in known:
        warn(
            f"no profile {visible(agent)}{validators.did_you_mean(agent, known)}; showing the home of commands without a profile"
        )
