"""The words about the commands that an agent starts."""

import os
import shlex
import sys

from agent_dev.cli.commands.parser import Verb, parser_of
from agent_dev.cli.main import say
from agent_dev.cli.render.format import as_document, line
from agent_dev.config import load
from agent_dev.errors import DONE, UsageError
from agent_dev.policy.command_rules import Command, decide
from agent_dev.run.prepare import Options
from agent_dev.sanitize import visible
from agent_dev.session import approvals as questions
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here


def _policy(words: list[str], where: Here, _options: Options) -> int:
    about = "Say what becomes of a command, and which rule decides. It is not run."
    parser = parser_of("policy", about, "agent-dev policy check -- git reset --hard")
    parser.usage = "agent-dev policy check [--set NAME] [--json] -- COMMAND [ARGS…]"
    parser.add_argument("what", choices=["check"], metavar="check", help="what to do")
    chosen = where.profile.policy if where.profile.policy != "off" else "guard"
    parser.add_argument(
        "--set", default=chosen, metavar="NAME", help=f"of the sets of policy.yaml: guard, strict, off ({chosen})"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    at = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:at])
    command = words[at + 1 :]
    if not command:
        raise UsageError(message="policy check: which command?", hint=parser.usage)
    home = os.path.realpath(where.environ.get("HOME", "/"))
    policy = load.policy(args.set, home, where.environ)
    found = decide(policy, Command(command[0], tuple(command), where.cwd, home))
    if args.json:
        as_document(
            {
                "version": 1,
                "set": policy.name,
                "command": command,
                "cwd": where.cwd,
                "decision": found.decision,
                "rule": found.rule or None,
                "origin": found.origin or None,
                "message": found.message or None,
            }
        )
        return DONE
    rule = f"rule {visible(found.rule)} ({visible(found.origin)})" if found.rule else f"no rule of {visible(policy.name)}"
    line(f"{found.decision}: {visible(shlex.join(command))}: {rule}")
    if found.message:
        line(f"the agent is told: {visible(found.message)}")
    return DONE


def _approve(words: list[str], where: Here, _options: Options) -> int:
    about = "Answer for commands that wait for you; without a number list them, and ask on a terminal."
    parser = parser_of("approve", about, "agent-dev approve 1")
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="let these start")
    parser.add_argument("--deny", action="store_true", help="do not let them start")
    parser.add_argument("--session", default="", metavar="SESSION", help="an id or a --name; else the newest that runs here")
    parser.add_argument("--json", action="store_true", help="list them as one JSON document on stdout")
    args = parser.parse_args(words)
    one = sessions.find(where, args.session, (store.RUNNING,))
    waiting = questions.listed(one.session.folder)
    for number in args.numbers:
        if number not in waiting:
            raise UsageError(message=f"approve: nothing with number {number} waits", hint="agent-dev approve")
        questions.give(one.session.folder, number, is_yes=not args.deny)
        say(f"{'denied' if args.deny else 'may start'}: {number}  {visible(shlex.join(waiting[number]['argv']))}")
    if args.numbers:
        return DONE
    if args.json:
        as_document({"version": 1, "session": one.session.id, "questions": [{"number": n, **row} for n, row in waiting.items()]})
        return DONE
    for number, row in waiting.items():
        line(f"{number}  {visible(shlex.join(row['argv']))}  in {visible(row['cwd'])} (rule {visible(row['rule'])})")
        if sys.stdin.isatty() and sys.stdout.isatty():
            is_yes = input("let it start? [y/N] ").strip().lower() in ("y", "yes")
            questions.give(one.session.folder, number, is_yes=is_yes)
    if not waiting:
        line(f"nothing waits in session {one.name}")
    return DONE


VERBS: dict[str, Verb] = {"policy": _policy, "approve": _approve}
