"""The subcommand `exec`, which runs a command in a session's sandbox."""

from agent_dev.cli.ask_session import ask_running_session
from agent_dev.cli.console import notify, warn
from agent_dev.cli.options import given_run_options
from agent_dev.cli.parser import make_session_parser
from agent_dev.config.options import RunOptions
from agent_dev.errors import NoSession, UsageError
from agent_dev.run import command_in_session
from agent_dev.run.request import RunRequest
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession

_KILLED = 128 + 9
DEFAULT = "the running one here, else the newest"
ABOUT = """\
{} in the sandbox of a running session, next to its agent.

If the session has ended, the sandbox shows its files, and changes made there are not kept."""


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `exec`."""
    example = "agent-dev exec fix-login -- git status"
    parser = make_session_parser("exec", ABOUT.format("Run a command"), example, default=DEFAULT)
    parser.usage = "agent-dev exec [-h] [-q] [SESSION] -- COMMAND [ARGS…]"
    index = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:index])
    command = tuple(argv[index + 1 :])
    if not command:
        raise UsageError(message="exec: a command is missing", hint="agent-dev exec -- COMMAND")
    return run_in_session(find_session_to_enter(args.session, context, "agent-dev exec {} -- COMMAND"), command, context, options)


def run_in_session(one: ListedSession, command: tuple[str, ...], context: CommandContext, options: RunOptions) -> int:
    """Run a command in the sandbox of a session, running or ended, and return its exit code."""
    if one.state != store.RUNNING:
        return _run_on_ended(one, command, context, options)
    _refuse_run_options(one, options)
    code = command_in_session.exec_in_session(one, command, context)
    if code is not None:
        return code
    warn(f"session {one.name} ended, and the command was killed")
    return _KILLED


def _refuse_run_options(one: ListedSession, options: RunOptions) -> None:
    """Raise UsageError if a command in a running sandbox is given options that only a new sandbox can have."""
    if given := given_run_options(options):
        message = f"session {one.name} is running: its sandbox cannot be changed by {', '.join(given)}"
        raise UsageError(message=message, hint="a command in a running session is confined as its agent is")


def _run_on_ended(one: ListedSession, command: tuple[str, ...], context: CommandContext, options: RunOptions) -> int:
    from agent_dev.merge import session_access  # not needed to join a running session
    from agent_dev.run.ended import run_command

    locked = session_access.lock_ended(one)
    try:
        notify(f"session {one.name} has ended: changes made here are not kept")
        request = RunRequest((), options, context.environ, command=command)
        return run_command.run_on_ended(locked, request, command_in_session.working_directory(one.record, context.cwd), warn)
    finally:
        store.unlock_session(locked.session)


def find_session_to_enter(name: str, context: CommandContext, hint: str) -> ListedSession:
    """Return the named session, else the running one (the user selects one of several), else the newest one that has ended.

    `hint`: as `ask_running_session`.
    """
    if name:
        return sessions.find_session(context, name)
    found = [one for one in sessions.sessions_of_repository(context) if one.state in sessions.OPEN]
    running = [one for one in found if one.state == store.RUNNING]
    if not found:
        raise NoSession(root=context.root, state="running or waiting", hint="agent-dev bash starts one with a shell")
    return found[-1] if not running else ask_running_session(context, hint, ("enter", "entered"))
