"""The subcommand `attach`, which attaches the terminal to a session."""

from typing import TYPE_CHECKING

from agent_dev.cli import run_result
from agent_dev.cli.ask_session import ask_session
from agent_dev.cli.attachment import finish_attachment, keys_of, review_ended
from agent_dev.cli.parser import make_session_parser
from agent_dev.config.detachable import is_foreground_terminal
from agent_dev.config.options import RunOptions
from agent_dev.errors import AgentDevError, NoSession, SessionBusy, UsageError
from agent_dev.run.request import RunRequest
from agent_dev.sandbox.attaching import client, protocol, state
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession

if TYPE_CHECKING:
    from agent_dev.run.job import RunOutcome

_ENDED = (store.WAITING, store.KILLED)


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `attach`."""
    about = "Attach the terminal to a detached session, or review it if it has ended."
    parser = make_session_parser("attach", about, default="the detached one here, else the newest")
    parser.add_argument("--take-over", action="store_true", help="if another terminal is attached, detach it")
    args = parser.parse_args(argv)
    if not (is_foreground_terminal(0) and is_foreground_terminal(1)):
        raise UsageError(message="attach needs a terminal", hint="agent-dev watch shows a session without one")
    one = sessions.find_session(context, args.session) if args.session else _find_session(context)
    request = RunRequest((), options, context.environ)
    if one.state != store.RUNNING:
        return _review(one, request)
    return _attach_to(one, request, takes_over=args.take_over)


def _find_session(context: CommandContext) -> ListedSession:
    """Return the detached session of the repository, else an attached one, else the newest one that has ended."""
    found = sessions.sessions_of_repository(context)
    states = {one.session.id: state.is_detached(one.session.folder) for one in found if one.state == store.RUNNING}
    for wanted in (True, False):
        matching = [one for one in found if states.get(one.session.id) is wanted]
        if len(matching) > 1:
            return ask_session(matching, ("running", "attach", "attached"), f"agent-dev attach {matching[-1].name}")
        if matching:
            return matching[0]
    ended = [one for one in found if one.state in _ENDED and run_result.kept_result(one.session.folder)]
    if not ended:
        raise NoSession(root=context.root, state="detached", hint="agent-dev --detachable AGENT starts one")
    return ended[-1]


def _review(one: ListedSession, request: RunRequest) -> int:
    code = review_ended(one, request, _review_run) if one.state in _ENDED else None
    if code is None:
        raise AgentDevError(message=f"session {one.name} is {one.state}, not running", hint=f"agent-dev merge {one.name}")
    return code


def _attach_to(one: ListedSession, request: RunRequest, *, takes_over: bool) -> int:
    try:
        connection = state.request_attachment(one.session.folder, takes_over=takes_over)
    except OSError:
        message = f"session {one.name} cannot be attached to: it was not started with --detachable"
        raise AgentDevError(message=message, hint=f"agent-dev watch {one.name}") from None
    reply, greeted = client.receive_greeting(connection)
    if reply == protocol.ATTACHED:
        hint = f"agent-dev attach --take-over {one.name}"
        raise SessionBusy(session=one.name, what="attached to another terminal", hint=hint)
    if greeted is None:
        raise AgentDevError(message=f"session {one.name} has just ended", hint="agent-dev sessions")
    connection.settimeout(None)
    attachment = client.attach(greeted, keys_of(request.options, request.environ), is_first=False)
    return finish_attachment(attachment, greeted.greeting, request, _review_run)


def _review_run(outcome: "RunOutcome", request: RunRequest) -> int:
    from agent_dev.cli.post_run_review import review_run  # loads the review, for a session with changes

    return review_run(outcome, request)
