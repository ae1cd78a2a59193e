"""The words about what is kept from one session to the next."""

import argparse
import os
import sys

from agent_dev.cli.commands.parser import Verb, parser_of
from agent_dev.cli.main import say
from agent_dev.cli.render import home as output
from agent_dev.config import load
from agent_dev.config import validators as checks
from agent_dev.errors import DONE, PARTLY, UsageError
from agent_dev.fs import disk_usage as clean
from agent_dev.home import manage as home
from agent_dev.run import config_report as configuration
from agent_dev.run import trust
from agent_dev.run.prepare import Options
from agent_dev.sandbox import machine
from agent_dev.sanitize import visible
from agent_dev.session.sessions import Here

_MOST = 1 << 20  # days, or MiB


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
    _tell_unknown(args.agent, where)
    if args.reset:
        output.fresh(home.reset(where, options, args.agent, keep_login=args.keep_login), as_json=args.json)
    elif args.diff:
        output.changed(home.diff(where, options, args.agent), as_json=args.json)
    else:
        output.home(home.look(where, options, args.agent), as_json=args.json)
    return DONE


def _tell_unknown(agent: str, where: Here) -> None:
    """Say that a name is no profile's: a command has the home of them all, a mistyped profile too."""
    known = [name for name, _, _ in load.names(machine.home(where.environ), where.environ)] if agent else []
    if agent and agent not in known:
        say(f"no profile {visible(agent)}{checks.nearest(agent, known)}: this is the home of commands that have none")


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


def _clean(words: list[str], where: Here, _options: Options) -> int:
    about = "Empty the trash of discarded sessions and old homes. Nothing else ever does, and nothing else is touched."
    parser = parser_of("clean", about, "agent-dev clean --older-than 7 --dry-run")
    parser.add_argument("--older-than", type=_number, default=30, metavar="DAYS", help="what lies there longer goes (30)")
    parser.add_argument("--keep-mib", type=_number, default=10240, metavar="MIB", help="beyond that the oldest goes too (10240)")
    parser.add_argument("--all", action="store_true", help="all of it goes")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    most = -1 if args.all else args.keep_mib
    output.cleaned(clean.clean(where, args.older_than, most, is_dry=args.dry_run), as_json=args.json, is_dry=args.dry_run)
    return DONE


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= _MOST):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to {_MOST}")
    return int(text)


def _config(words: list[str], where: Here, options: Options) -> int:
    about = "Every value that a run of AGENT would get, and where it comes from."
    parser = parser_of("config", about, "agent-dev config claude")
    parser.add_argument("agent", nargs="?", default="", metavar="AGENT", help="of that profile; else of a command without one")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    output.configured(configuration.effective(where, options, args.agent), as_json=args.json)
    return DONE


VERBS: dict[str, Verb] = {"home": _home, "trust": _trust, "clean": _clean, "config": _config}
