"""The words about what is kept from one session to the next."""

from agent_dev.commands import home
from agent_dev.commands.prepare import Options
from agent_dev.commands.sessions import Here
from agent_dev.errors import DONE, UsageError
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


VERBS: dict[str, Verb] = {"home": _home}
