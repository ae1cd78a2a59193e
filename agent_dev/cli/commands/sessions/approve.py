"""The subcommand `approve`: answer questions about commands and connections that wait for the user."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from agent_dev.cli import typeahead
from agent_dev.cli.console import notify, warn
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render.format import print_json, print_line
from agent_dev.cli.render.question_words import full_question, question_target, short_question
from agent_dev.config.load import remembered_path
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, AgentDevError, NoSession, UsageError
from agent_dev.linux import users
from agent_dev.sanitize import visible
from agent_dev.session import approvals, sessions, store
from agent_dev.session.approvals import ALWAYS, NO, SESSION, YES
from agent_dev.session.sessions import CommandContext, ListedSession

_ABOUT = "Approve or deny commands and connections that wait. Without NUMBER, list them and ask about each."


_DONE = {YES: "approved", SESSION: "approved for this session", ALWAYS: "always approved"}


_KEYS = {"y": YES, "yes": YES, "s": SESSION, "session": SESSION, "a": ALWAYS, "always": ALWAYS}


Row = Mapping[str, Any]


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `approve`."""
    args = _parser().parse_args(argv)
    one = _session(context, args.session_name)
    waiting = approvals.list_questions(one.session.folder)
    unknown = [number for number in args.numbers if number not in waiting]
    if unknown:
        raise UsageError(message=f"approve: no question with number {unknown[0]} is waiting", hint="agent-dev approve")
    for number in args.numbers:
        _require_connection(args, number, waiting[number])
    for number in args.numbers:
        _answer(one, number, waiting[number], args.answer, context, is_denied=args.deny)
    if args.numbers:
        return SUCCESS
    if args.json:
        print_json({"version": 1, "session": one.session.id, "questions": [{"number": n, **row} for n, row in waiting.items()]})
        return SUCCESS
    _ask_about(one, waiting, context)
    if not waiting:
        print_line(f"nothing is waiting in session {one.name}")
    return SUCCESS


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("approve", _ABOUT, "agent-dev approve 1")
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="approve the questions with these numbers")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--session",
        dest="answer",
        action="store_const",
        const=SESSION,
        default=YES,
        help="for a connection: also allow later ones to this name and port in this session, even after a resume",
    )
    scope.add_argument(
        "--always",
        dest="answer",
        action="store_const",
        const=ALWAYS,
        help="for a connection: also allow later ones to this name and port in all sessions of this profile",
    )
    parser.add_argument(
        "--deny", action="store_true", help="deny instead; a connection is denied for this session, or with --always for all"
    )
    parser.add_argument(
        "--in", dest="session_name", default="", metavar="SESSION", help="an id or --name; default: the newest that waits here"
    )
    parser.add_argument("--json", action="store_true", help="list the waiting questions as one JSON document")
    return parser


def _session(context: CommandContext, name: str) -> ListedSession:
    """Return the named session, else the newest running one here that has a question, else the newest running one here."""
    if name:
        return sessions.find_session(context, name, (store.RUNNING,))
    running = [one for one in sessions.sessions_of_repository(context) if one.state == store.RUNNING]
    asking = [one for one in running if approvals.list_questions(one.session.folder)]
    found = (asking or running)[-1:]
    if not found:
        raise NoSession(root=context.root, state="running", hint="agent-dev sessions --all lists those of other repositories")
    return found[0]


def _require_connection(args: argparse.Namespace, number: int, row: Row) -> None:
    if args.answer != YES and not approvals.is_connection(row):
        option = "--session" if args.answer == SESSION else "--always"
        raise UsageError(
            message=f"{option}: {number} is a command, not a connection",
            hint="to always allow a command, add a rule to policy.yaml",
        )


def _answer(one: ListedSession, number: int, row: Row, answer: str, context: CommandContext, *, is_denied: bool) -> None:
    if answer == ALWAYS:
        _remember(one, question_target(row), context, is_denied=is_denied)
    approvals.write_answer(one.session.folder, number, NO if is_denied else answer)
    done = ("always denied" if answer == ALWAYS else "denied") if is_denied else _DONE[answer]
    notify(f"{done}: {number}  {visible(short_question(row))}")


def _remember(one: ListedSession, rule: str, context: CommandContext, *, is_denied: bool) -> None:
    """Add a rule to the profile's file. Raises AgentDevError; the question then still waits."""
    from agent_dev.config import remembered_rules  # imports yaml

    path = remembered_path(users.home_directory(context.environ), context.environ, str(one.record["profile"]))
    field = remembered_rules.DENY if is_denied else remembered_rules.ALLOW
    try:
        remembered_rules.remember(path, field, rule)
    except OSError as error:
        raise AgentDevError(message=f"{path}: cannot be written: {error.strerror}", hint="agent-dev approve --session") from None


def _ask_about(one: ListedSession, waiting: Mapping[int, Row], context: CommandContext) -> None:
    """List the waiting questions; on a terminal, ask about each."""
    for number, row in waiting.items():
        print_line(f"{number}  {visible(full_question(row))}")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            continue
        typeahead.drop_typeahead()
        is_connection = approvals.is_connection(row)
        try:
            word = input("approve? [y]es, for the [s]ession, [a]lways, [N]o " if is_connection else "approve? [y/N] ")
        except EOFError:  # Ctrl-D
            print_line("")
            warn("not answered: it still waits")
            return
        answer = _KEYS.get(word.strip().lower(), NO)
        answer = NO if answer in (SESSION, ALWAYS) and not is_connection else answer
        if answer == ALWAYS:
            _remember(one, question_target(row), context, is_denied=False)
        approvals.write_answer(one.session.folder, number, answer)
