"""The subcommand `resume`."""

from agent_dev.cli.parser import make_session_parser
from agent_dev.config.options import RunOptions
from agent_dev.run.request import COMMAND, RunRequest
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext

_ABOUT = "Run the session's agent again on its changes, with other OPTIONS if given, or run COMMAND instead."


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `resume`."""
    parser = make_session_parser("resume", _ABOUT)
    parser.usage = "agent-dev resume [-h] [--fresh] [SESSION] [-- COMMAND… | -- OPTIONS…]"
    parser.add_argument("--fresh", action="store_true", help="start a new conversation, with the arguments of the first run")
    before, after = _split(argv)
    args = parser.parse_args(before)
    one = sessions.find_session(context, args.session, (store.WAITING, store.KILLED))
    from agent_dev.cli.post_run_review import resume_session  # not needed by the others

    request = RunRequest((), options, context.environ, COMMAND, continues=not args.fresh)
    is_for_agent = after[:1] != [] and after[0].startswith("-")  # no command has such a name
    return resume_session(one, request.replace(**{"agent_arguments" if is_for_agent else "arguments": tuple(after)}))


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before `--` and those after it."""
    index = argv.index("--") if "--" in argv else len(argv)
    return argv[:index], argv[index + 1 :]
