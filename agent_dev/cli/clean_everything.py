"""`agent-dev clean --everything`: ask about each directory that agent-dev made, and remove it."""

import argparse
import os
import sys

from agent_dev.cli.console import warn
from agent_dev.cli.parser import Parser
from agent_dev.cli.render.format import print_line, print_outcome
from agent_dev.cli.typeahead import drop_typeahead
from agent_dev.config import load
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, Refused, UsageError
from agent_dev.home import manage
from agent_dev.linux import users
from agent_dev.overlay.labels import format_size
from agent_dev.sanitize import visible
from agent_dev.session import all_state
from agent_dev.session.sessions import CommandContext


def run(context: CommandContext, options: RunOptions, parser: Parser, args: argparse.Namespace) -> int:
    """List the directories and ask about each; a dry run only lists them. Raises UsageError without a terminal, and Refused."""
    if args.json or args.all:
        parser.error("--everything cannot be combined with --json or --all")
    places = all_state.find_places(context, _agent_homes(context, options))
    if not places:
        print_outcome("agent-dev keeps nothing here")
    if args.dry_run:
        for place in places:
            print_line(_describe(place))
        return SUCCESS
    if places and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            message="--everything asks about each directory, and stdin or stdout is not a terminal",
            hint="agent-dev clean --everything --dry-run lists them",
        )
    for place in places:
        if _confirm(place):
            all_state.remove_place(context, place)
            print_outcome(f"removed {visible(place.path)}")
    return SUCCESS


def _describe(place: all_state.StatePlace) -> str:
    return f"{place.meaning}, {format_size(place.size)}: {visible(place.path)}"


def _confirm(place: all_state.StatePlace) -> bool:
    print_line(_describe(place))
    drop_typeahead()
    try:
        return input("remove it for good? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        print_line("")
        warn("kept")
        return False


def _agent_homes(context: CommandContext, options: RunOptions) -> tuple[str, ...]:
    """Return the agent homes of the settings and of every profile, without directories that hold more than an agent home."""
    profiles = load.list_profiles(users.home_directory(context.environ), context.environ)
    found = dict.fromkeys(manage.find_home(context, options, name)[0] for name in ("", *(row[0] for row in profiles)))
    return tuple(path for path in found if os.path.isdir(path) and _is_agent_home(path, context))


def _is_agent_home(path: str, context: CommandContext) -> bool:
    try:
        manage.check_home(path, context)
    except Refused:
        return False
    return True
