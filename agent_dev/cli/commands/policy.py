"""The subcommands about commands that an agent starts."""

import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from agent_dev.cli import typeahead
from agent_dev.cli.console import notify, warn
from agent_dev.cli.parser import Verb, make_parser
from agent_dev.cli.render.format import print_json, print_line
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UsageError
from agent_dev.policy import load as policy_load
from agent_dev.policy.command_rules import Command, decide
from agent_dev.sanitize import visible
from agent_dev.session import approvals, sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession


def _policy(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "Show the policy's decision on a command, and the rule that makes it. The command is not run."
    parser = make_parser("policy", about, "agent-dev policy check -- git reset --hard")
    parser.usage = "agent-dev policy check [--set NAME] [--json] -- COMMAND [ARGS…]"
    parser.add_argument("what", choices=["check"], metavar="check", help="show the decision on a command")
    default = context.profile.policy if context.profile.policy != "off" else "guard"
    parser.add_argument("--set", default=default, metavar="NAME", help=f"a policy set: guard, strict, off ({default})")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    index = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:index])
    command = argv[index + 1 :]
    if not command:
        raise UsageError(message="policy check needs a command", hint=parser.usage)
    home = os.path.realpath(context.environ.get("HOME", "/"))
    policy = policy_load.load_policy(args.set, home, context.environ)
    found = decide(policy, Command(command[0], tuple(command), context.cwd, home))
    if args.json:
        print_json(
            {
                "version": 1,
                "set": policy.name,
                "command": command,
                "cwd": context.cwd,
                "decision": found.decision,
                "rule": found.rule or None,
                "origin": found.origin or None,
                "message": found.message or None,
            }
        )
        return SUCCESS
    rule = (
        f"rule {visible(found.rule)} ({visible(found.origin)})"
        if found.rule
        else f"no rule of the set {visible(policy.name)} matches"
    )
    print_line(f"{found.decision}: {visible(shlex.join(command))}: {rule}")
    if found.message:
        print_line(f"message to the agent: {visible(found.message)}")
    return SUCCESS


def _approve(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    about = "Approve or deny commands that wait for an answer. Without NUMBER, list them and ask about each."
    parser = make_parser("approve", about, "agent-dev approve 1")
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="approve the commands with these numbers")
    parser.add_argument("--deny", action="store_true", help="deny them instead")
    parser.add_argument("--session", default="", metavar="SESSION", help="an id or --name; default: the newest running here")
    parser.add_argument("--json", action="store_true", help="list the waiting commands as one JSON document")
    args = parser.parse_args(argv)
    one = sessions.find_session(context, args.session, (store.RUNNING,))
    waiting = approvals.list_questions(one.session.folder)
    for number in args.numbers:
        if number not in waiting:
            raise UsageError(message=f"approve: no command with number {number} is waiting", hint="agent-dev approve")
        approvals.write_answer(one.session.folder, number, is_yes=not args.deny)
        notify(f"{'denied' if args.deny else 'approved'}: {number}  {visible(shlex.join(waiting[number]['argv']))}")
    if args.numbers:
        return SUCCESS
    if args.json:
        print_json({"version": 1, "session": one.session.id, "questions": [{"number": n, **row} for n, row in waiting.items()]})
        return SUCCESS
    _ask_about(one, waiting)
    if not waiting:
        print_line(f"no command is waiting in session {one.name}")
    return SUCCESS


def _ask_about(one: ListedSession, waiting: Mapping[int, Mapping[str, Any]]) -> None:
    """List the waiting commands; on a terminal, ask about each."""
    for number, row in waiting.items():
        print_line(f"{number}  {visible(shlex.join(row['argv']))}  in {visible(row['cwd'])} (rule {visible(row['rule'])})")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            continue
        typeahead.drop_typeahead()
        try:
            is_yes = input("approve? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:  # Ctrl-D
            print_line("")
            warn("not answered: the command still waits")
            return
        approvals.write_answer(one.session.folder, number, is_yes=is_yes)


VERBS: dict[str, Verb] = {"policy": _policy, "approve": _approve}
