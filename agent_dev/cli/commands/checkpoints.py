"""The subcommands about a session's checkpoints and log."""

import argparse
from dataclasses import replace

from agent_dev.checkpoint import deleted_files, history, operations, rollback
from agent_dev.cli.console import warn, write_stdout
from agent_dev.cli.parser import Verb, add_color_argument, add_session_argument, make_parser, relative_to_root
from agent_dev.cli.render import checkpoints as output
from agent_dev.cli.render.colour import choose_palette
from agent_dev.cli.render.format import print_line, session_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.merge import session_access
from agent_dev.network.learned import profile_text
from agent_dev.progress import show_progress
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession

_JSON = "print one JSON document"


def _checkpoint(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "Record the current state of a session, running or ended, to roll back to."
    parser = make_parser("checkpoint", about, "agent-dev checkpoint -m 'before the big rename'")
    add_session_argument(parser)
    parser.add_argument("-m", "--message", default="", metavar="TEXT", help="describe the checkpoint")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(argv)
    one, is_locked = _find_locked(context, args.session)
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


def _find_locked(context: CommandContext, name: str) -> tuple[ListedSession, bool]:
    """Return a session and whether it was locked here: a running one is not."""
    one = sessions.find_session(context, name)
    return (one, False) if one.state == store.RUNNING else (session_access.lock_ended(one), True)


def _checkpoints(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "List a session's checkpoints: time, cause, and how much changed since the previous one."
    parser = make_parser("checkpoints", about, "agent-dev checkpoints --of src/main.py")
    add_session_argument(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)
    parser.add_argument("--of", default="", metavar="FILE", help="list the versions of one file")
    parser.add_argument("--restore", type=int, default=0, metavar="K", help="with --of: restore the version in checkpoint K")
    parser.add_argument("--thin", action="store_true", help="prune checkpoints by the retention rules")
    parser.add_argument("--dry-run", action="store_true", help="with --thin: only list what would be pruned")
    args = parser.parse_args(argv)
    if (args.dry_run and not args.thin) or (args.restore and not args.of):
        message = "--dry-run requires --thin" if args.dry_run else "--restore requires --of FILE"
        raise UsageError(message=message, hint="agent-dev checkpoints --help")
    one = sessions.find_session(context, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if args.restore:
        return _roll_back(context, (args.session, args.restore), (args.of,), as_json=args.json)
    _report_damaged(one)
    if args.thin:
        gone = operations.prune(context, one, is_dry=args.dry_run)
        output.print_pruned(one, gone, is_dry=args.dry_run, as_json=args.json)
    elif args.of:
        output.print_versions(operations.file_versions(one, relative_to_root(args.of, context, one)), as_json=args.json)
    else:
        if not (args.session or args.json):
            print_line(session_line(one))
        output.print_checkpoints(one, operations.list_checkpoints(one), as_json=args.json)
    return SUCCESS


def _report_damaged(one: ListedSession) -> None:
    for number in operations.damaged_numbers(one):
        warn(f"checkpoint {number} is damaged and was skipped")


def _rollback(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "Roll a session or some of its paths back to a checkpoint. A checkpoint is taken first; the real tree is not touched."
    parser = make_parser("rollback", about, "agent-dev rollback 3 src/main.py")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the number of the checkpoint (agent-dev checkpoints)")
    parser.add_argument(
        "paths", nargs="*", default=[], metavar="PATH", help="roll back only these paths and everything below them"
    )
    parser.add_argument("--session", default="", metavar="SESSION", help="an id or --name; default: the newest here")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(argv)
    number = _checkpoint_number(args.checkpoint)
    return _roll_back(context, (args.session, number), tuple(args.paths), as_json=args.json)


def _roll_back(context: CommandContext, target: tuple[str, int], typed: tuple[str, ...], *, as_json: bool) -> int:
    """Roll the named session back to a checkpoint; with `typed`, only these paths."""
    name, number = target
    one = sessions.find_session(context, name)
    paths = tuple(relative_to_root(path, context, one) for path in typed)
    if paths:
        operations.require_known_paths(one, paths, operations.list_checkpoints(one, number))
    with show_progress("rolling back"):
        if one.state == store.RUNNING:
            result = rollback.roll_back_live(one, number, paths)
        else:
            one = session_access.lock_ended(one)
            try:
                result = rollback.roll_back_ended(one, number, paths)
            finally:
                store.unlock_session(one.session)
    output.print_rollback(one, result, as_json=as_json)
    return FAILURE if result.problems else SUCCESS


def _checkpoint_number(argument: str) -> int:
    if not argument.isdecimal():
        raise UsageError(message=f"rollback: {argument!r} is not a checkpoint number", hint="agent-dev checkpoints lists them")
    return int(argument)


def _log(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    args = _parse_log(argv)
    one = sessions.find_session(context, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if not (args.session or args.json or args.as_profile):
        print_line(session_line(one))
    if args.changes:
        _report_damaged(one)
        output.print_changes(one, history.read_changes(one), as_json=args.json)
        return SUCCESS
    kind, read = "events", history.read_events
    if args.commands or args.network:
        kind, read = ("commands", history.read_commands) if args.commands else ("connections", history.read_connections)
    found = read(one)
    if args.denied:
        found = replace(found, rows=tuple(row for row in found.rows if row.get("decision") == "deny"))
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
        "--as-profile", action="store_true", help="with --network: print the settings, in YAML, that allow what was reached"
    )
    parser.add_argument("--json", action="store_true", help=_JSON)
    add_color_argument(parser)
    args = parser.parse_args(argv)
    for flag, is_given in (("--denied", args.denied), ("--as-profile", args.as_profile)):
        if is_given and not args.network:
            raise UsageError(message=f"{flag} needs --network", hint=f"agent-dev log --network {flag}")
    return args


def _deleted(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "List the files deleted in a session that can be restored from a checkpoint or the repository."
    parser = make_parser("deleted", about, "agent-dev deleted --restore src/main.py")
    add_session_argument(parser)
    parser.add_argument("--restore", default="", metavar="PATH", help="restore PATH and everything below it")
    parser.add_argument("--json", action="store_true", help=_JSON)
    args = parser.parse_args(argv)
    one, is_locked = _find_locked(context, args.session)
    try:
        _report_damaged(one)
        if not args.restore:
            if not (args.session or args.json):
                print_line(session_line(one))
            output.print_deleted(one, deleted_files.list_deleted(one), as_json=args.json)
            return SUCCESS
        result = deleted_files.restore_deleted(one, relative_to_root(args.restore, context, one))
    finally:
        if is_locked:
            store.unlock_session(one.session)
    output.print_restored(one, result, as_json=args.json)
    return FAILURE if result.problems else SUCCESS


VERBS: dict[str, Verb] = {
    "checkpoint": _checkpoint,
    "checkpoints": _checkpoints,
    "rollback": _rollback,
    "log": _log,
    "deleted": _deleted,
}
