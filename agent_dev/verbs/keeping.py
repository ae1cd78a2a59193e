"""The words about what is kept from one session to the next."""

import os
import sys

from agent_dev.commands import home, trust
from agent_dev.commands.prepare import Options
from agent_dev.commands.sessions import Here
from agent_dev.errors import DONE, PARTLY, UsageError
from agent_dev.output import keeping as output
from agent_dev.verbs.parser import Verb, parser_of


def _home(words: list[str], where: Here, options: Options) -> int:
    about = "The agent home: what of it runs by itself, what changed in it, or a fresh one."
    parser = parser_of("home", about, "agent-dev home --reset --keep-login")
    parser.add_argument(
        "agent", nargs="?", default="", metavar="AGENT", help="whose home, where profiles have homes of their own"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--diff", action="store_true", help="what changed since before the last session")
    what.add_argument("--reset", action="store_true", help="move it to the trash")
    parser.add_argument("--keep-login", action="store_true", help="with --reset: take along what logs the agents in")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    if args.keep_login and not args.reset:
        raise UsageError(message="--keep-login goes with --reset", hint="agent-dev home --reset --keep-login")
    if args.reset:
        output.fresh(home.reset(where, options, args.agent, keep_login=args.keep_login), as_json=args.json)
    elif args.diff:
        output.changed(home.diff(where, options, args.agent), as_json=args.json)
    else:
        output.home(home.look(where, options, args.agent), as_json=args.json)
    return DONE


def _trust(words: list[str], where: Here, _options: Options) -> int:
    about = "Let the repository's .agent-dev.yaml count, exactly as it is now. It is shown first, and you are asked."
    parser = parser_of("trust", about, "agent-dev trust --show")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true", help="only show it, and whether it is trusted")
    what.add_argument("--revoke", action="store_true", help="take your word back")
    what.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="with --show: one JSON document on stdout")
    args = parser.parse_args(words)
    if args.json and not args.show:
        raise UsageError(message="--json goes with --show", hint="agent-dev trust --show --json")
    if args.revoke:
        output.revoked(trust.revoke(where))
        return DONE
    said, wanted = trust.look(where)
    output.said(said, as_json=args.json)
    if args.show or said.state in (trust.NONE, trust.TRUSTED):
        return DONE
    if wanted is None:
        trust.complain(said)
    elif args.yes or _agrees():
        trust.give(where, wanted)
        output.given(where.root)
        return DONE
    return PARTLY


def _agrees() -> bool:
    """Ask; no terminal and no answer mean no."""
    if not os.isatty(0):
        raise UsageError(message="there is no terminal to ask at", hint="agent-dev trust --show, then agent-dev trust --yes")
    sys.stderr.write("agent-dev: trust it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


VERBS: dict[str, Verb] = {"home": _home, "trust": _trust}
