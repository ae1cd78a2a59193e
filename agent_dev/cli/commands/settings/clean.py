"""The subcommand `clean`."""

import argparse

from agent_dev.cli import clean_everything
from agent_dev.cli.console import notify
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import home as output
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.retention import clean
from agent_dev.session.sessions import CommandContext

_LARGEST = 1 << 20  # days, or MiB


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `clean`."""
    about = "Remove what exceeds the settings keep_*: trash, merges, merged sessions, checkpoints and caches; never what waits."
    parser = make_parser("clean", about, "agent-dev clean --older-than 7 --dry-run")
    days, mib = context.profile.keep_trash_days, context.profile.keep_trash_mib
    parser.add_argument(
        "--older-than",
        type=_number,
        default=days,
        metavar="DAYS",
        help="remove entries of the trash older than DAYS (keep_trash_days)",
    )
    parser.add_argument(
        "--keep-mib",
        type=_number,
        default=mib,
        metavar="MIB",
        help="then remove the oldest of them until at most MIB remain (keep_trash_mib)",
    )
    parser.add_argument("--all", action="store_true", help="empty the trash, and reduce every merged session to what undo needs")
    parser.add_argument("--everything", action="store_true", help="before an uninstall: ask about each directory of agent-dev")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed, and how much")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    if args.everything:
        return clean_everything.run(context, options, parser, args)
    max_mib = -1 if args.all else args.keep_mib
    output.print_cleaned(
        clean.clean_all(context, args.older_than, max_mib, notify, is_all=args.all, is_dry=args.dry_run),
        as_json=args.json,
        is_dry=args.dry_run,
    )
    return SUCCESS


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= _LARGEST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_LARGEST}")
    return int(text)
