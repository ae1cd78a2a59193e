"""The subcommands that end or resume a session."""

from agent_dev.cli.ask_session import ask_running_session, ask_session
from agent_dev.cli.parser import Verb, make_parser, make_session_parser
from agent_dev.cli.render.format import command_rows, print_outcome
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.merge import session_access
from agent_dev.merge.retention import clean
from agent_dev.run.request import COMMAND, RunRequest
from agent_dev.session import discarded, sessions, store
from agent_dev.session.sessions import CommandContext


def _discard(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    args = make_session_parser("discard", "Move a session to the trash without merging it.").parse_args(argv)
    one = sessions.find_session(context, args.session or _name_to_discard(context), sessions.OPEN, damaged=True)
    path = session_access.discard(context, one)
    print_outcome(f"session {one.name} moved to the trash: {path}")
    clean.expire_trash(context)
    return SUCCESS


def _name_to_discard(context: CommandContext) -> str:
    """Return the id of the only open session; of several the one that the user names. Raises UsageError without an answer."""
    found = [one for one in sessions.sessions_of_repository(context) if not one.problem]
    if len(found) <= 1:
        return ""
    return ask_session(found, ("open", "discard", "discarded"), f"agent-dev discard {found[-1].name}").session.id


def _undiscard(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    parser = make_parser("undiscard", "Restore a discarded session from the trash.", "agent-dev undiscard fix-login")
    about = "an id or --name; default: the newest of this repository"
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help=about)
    args = parser.parse_args(argv)
    one = discarded.undiscard(context, discarded.find_discarded(context, args.session))
    print_outcome(f"session {one.name} is {one.state}")
    return SUCCESS


def _stop(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    args = make_session_parser("stop", "Stop a running session; its changes are kept.").parse_args(argv)
    if args.session:
        one = sessions.find_session(context, args.session)
    else:
        one = ask_running_session(context, "stop", ("stop", "stopped"))
    ended = session_access.stop(context, one)
    if not ended.state:
        print_outcome(f"session {one.name} stopped; it had no changes and was removed")
    elif one.state != store.RUNNING:
        print_outcome(f"session {one.name} was not running; it is {ended.state}")
    else:
        print_outcome(f"session {one.name} stopped; its changes are kept")
        for row in command_rows("to select and apply them", f"agent-dev merge {one.name}"):
            print_outcome(row)
    return SUCCESS


def _resume(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    parser = make_session_parser("resume", "Run the session's agent again on its changes, or run COMMAND instead.")
    parser.usage = "agent-dev resume [-h] [--fresh] [SESSION] [-- COMMAND [ARGS…]]"
    parser.add_argument("--fresh", action="store_true", help="start a new conversation, with the arguments of the first run")
    before, after = _split(argv)
    args = parser.parse_args(before)
    one = sessions.find_session(context, args.session, (store.WAITING, store.KILLED))
    from agent_dev.cli.post_run_review import resume_session  # not needed by the others

    return resume_session(one, RunRequest(tuple(after), options, context.environ, COMMAND, continues=not args.fresh))


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before `--` and those after it."""
    index = argv.index("--") if "--" in argv else len(argv)
    return argv[:index], argv[index + 1 :]


VERBS: dict[str, Verb] = {"discard": _discard, "undiscard": _undiscard, "stop": _stop, "resume": _resume}
