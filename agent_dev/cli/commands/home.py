"""The subcommands about state kept between sessions: home, trust, clean, config."""

import argparse
import os
import sys

from agent_dev.agents import catalogue
from agent_dev.cli import clean_everything, typeahead
from agent_dev.cli.commands import home_import
from agent_dev.cli.console import warn
from agent_dev.cli.parser import Verb, make_parser
from agent_dev.cli.render import home as output
from agent_dev.config import load, validators
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.home import manage
from agent_dev.linux import users
from agent_dev.merge.retention import clean
from agent_dev.run import config_report, repository_trust
from agent_dev.sanitize import visible
from agent_dev.session.sessions import CommandContext

_LARGEST = 1 << 20  # days, or MiB


def _home(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    about = "Show which files of the agent home run automatically, or its changes; reset it; or copy files of yours to it."
    parser = make_parser("home", about, "agent-dev home --reset --keep-login")
    parser.add_argument(
        "agents", nargs="*", default=[], metavar="AGENT", help="the agent whose home to use, if profiles have separate homes"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--diff", action="store_true", help="list the changes since the last session started")
    group.add_argument("--reset", action="store_true", help="move the home to the trash")
    group.add_argument(
        "--import", action="store_true", dest="importing", help="list which files of your own agents can be copied to it, and ask"
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
    """Warn that a name is no profile and means the shared home; refuse to reset on a mistyped name."""
    known = [name for name, _, _ in load.list_profiles(users.home_directory(context.environ), context.environ)] if agent else []
    if agent and agent not in known and is_reset:
        message = f"no profile {visible(agent)}{validators.did_you_mean(agent, known)}; nothing was reset"
        raise UsageError(message=message, hint="agent-dev home --reset resets the home of commands without a profile")
    if agent and agent not in known:
        warn(
            f"no profile {visible(agent)}{validators.did_you_mean(agent, known)}; showing the home of commands without a profile"
        )


def _trust(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "Trust the current version of the repository's .agent-dev.yaml; show it and ask first."
    parser = make_parser("trust", about, "agent-dev trust --show")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--show", action="store_true", help="only show the file and whether it is trusted")
    group.add_argument("--revoke", action="store_true", help="stop trusting it")
    group.add_argument("--yes", action="store_true", help="trust it without asking")
    parser.add_argument("--json", action="store_true", help="with --show: print one JSON document")
    args = parser.parse_args(argv)
    if args.json and not args.show:
        raise UsageError(message="--json requires --show", hint="agent-dev trust --show --json")
    if args.revoke:
        output.print_revoked(repository_trust.revoke(context))
        return SUCCESS
    status, request = repository_trust.read_status(context)
    output.print_trust_status(status, as_json=args.json)
    if args.show or status.state in (repository_trust.NONE, repository_trust.TRUSTED):
        return SUCCESS
    if request is None:
        repository_trust.raise_problems(status)
    elif args.yes or _confirm():
        repository_trust.grant(context, request)
        output.print_trusted(context.root)
        return SUCCESS
    return FAILURE


def _confirm() -> bool:
    """Ask for a confirmation on the terminal; no answer means no. Raises UsageError without a terminal."""
    if not os.isatty(0):
        raise UsageError(
            message="cannot ask for confirmation: stdin is not a terminal",
            hint="agent-dev trust --show, then agent-dev trust --yes",
        )
    typeahead.drop_typeahead()
    sys.stderr.write("agent-dev: trust it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _clean(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "Empty the trash of discarded sessions and old homes; reduce merged sessions to what undo needs."
    parser = make_parser("clean", about, "agent-dev clean --older-than 7 --dry-run")
    days, mib = context.profile.keep_trash_days, context.profile.keep_trash_mib
    parser.add_argument(
        "--older-than", type=_number, default=days, metavar="DAYS", help="remove entries older than DAYS (keep_trash_days)"
    )
    parser.add_argument(
        "--keep-mib",
        type=_number,
        default=mib,
        metavar="MIB",
        help="then remove the oldest entries beyond MIB in total (keep_trash_mib)",
    )
    parser.add_argument("--all", action="store_true", help="remove all entries, reduce every merged session")
    parser.add_argument("--everything", action="store_true", help="to uninstall: ask about each directory of agent-dev")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    if args.everything:
        return clean_everything.run(context, parser, args)
    max_mib = -1 if args.all else args.keep_mib
    output.print_cleaned(
        clean.clean_all(context, args.older_than, max_mib, is_all=args.all, is_dry=args.dry_run),
        as_json=args.json,
        is_dry=args.dry_run,
    )
    return SUCCESS


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= _LARGEST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_LARGEST}")
    return int(text)


def _config(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    about = "Show the settings of a run of AGENT that differ from the defaults, with their origins."
    parser = make_parser("config", about, "agent-dev config claude")
    parser.add_argument(
        "agent", nargs="?", default="", metavar="AGENT", help="a profile; default: the settings of a command without a profile"
    )
    parser.add_argument("--all", action="store_true", help="show the defaults, too")
    parser.add_argument("--json", action="store_true", help="print all as one JSON document")
    args = parser.parse_args(argv)
    values = config_report.effective_values(context, options, args.agent)
    output.print_config(values, as_json=args.json, with_defaults=args.all)
    return SUCCESS


VERBS: dict[str, Verb] = {"home": _home, "trust": _trust, "clean": _clean, "config": _config}
