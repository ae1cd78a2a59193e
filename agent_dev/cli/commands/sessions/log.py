"""The subcommand `log`."""

import argparse

from agent_dev.checkpoint import history
from agent_dev.cli.commands.sessions.checkpointed_session import report_damaged
from agent_dev.cli.console import warn, write_stdout
from agent_dev.cli.parser import add_color_argument, add_session_argument, make_parser
from agent_dev.cli.render import checkpoints as output
from agent_dev.cli.render.colour import choose_palette
from agent_dev.cli.render.format import print_line, session_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.network.learned import profile_text
from agent_dev.quick_dataclass import replace
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext

_JSON = "print one JSON document"


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `log`."""
    args = _parse_log(argv)
    one = sessions.find_session(context, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if not (args.session or args.json or args.as_profile):
        print_line(session_line(one))
    if args.changes:
        report_damaged(one)
        output.print_changes(one, history.read_changes(one), as_json=args.json)
        return SUCCESS
    kind, read = "events", history.read_events
    if args.commands or args.network:
        kind, read = ("commands", history.read_commands) if args.commands else ("connections", history.read_connections)
    found = read(one)
    if args.denied:
        found = replace(found, rows=found.rows.with_decision("deny"))
    if args.as_profile:
        write_stdout(profile_text(found.rows))
    else:
        output.print_log(one, found, kind=kind, as_json=args.json, palette=choose_palette(context.environ, args.color))
    if found.problem:
        warn(f"the log of session {one.name} was tampered with: {found.problem}")
    return FAILURE if found.problem else SUCCESS


def _parse_log(argv: list[str]) -> argparse.Namespace:
    about = "Show a session's log: start, checkpoints, rollbacks, merges, end. Tampering with the log is reported."
    parser = make_parser("log", about, "agent-dev log --changes")
    add_session_argument(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--commands", action="store_true", help="show the commands that the agent started (needs a policy)")
    group.add_argument("--network", action="store_true", help="show the connections of the sandbox (net: allow, ask, learn)")
    group.add_argument("--changes", action="store_true", help="show the changed paths per checkpoint")
    parser.add_argument("--denied", action="store_true", help="with --network: only connections that were denied")
    parser.add_argument(
        "--as-profile", action="store_true", help="with --network: print settings (YAML) that allow what was reached"
    )
    parser.add_argument("--json", action="store_true", help=_JSON)
    add_color_argument(parser)
    args = parser.parse_args(argv)
    for flag, is_given in (("--denied", args.denied), ("--as-profile", args.as_profile)):
        if is_given and not args.network:
            raise UsageError(message=f"{flag} needs --network", hint=f"agent-dev log --network {flag}")
    return args
