"""The words about profiles and this machine."""

import argparse
import os
import sys

from agent_dev.cli.commands.parser import Verb, parser_of
from agent_dev.cli.render import machine as output
from agent_dev.config import load
from agent_dev.errors import DONE, PARTLY, UsageError
from agent_dev.run.prepare import Options, Request
from agent_dev.session.sessions import Here


def _show(words: list[str], where: Here, options: Options) -> int:
    from agent_dev.run import show

    parser = parser_of(
        "show",
        "What a run of AGENT would look like: values, their origins, the plan. Runs nothing.",
        "agent-dev show claude",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="AGENT [ARGS…]", help="as for a run")
    args = parser.parse_args(words)
    names = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not names:
        raise UsageError(message="show which agent?", hint="agent-dev show claude")
    shown = show.show(Request(tuple(names), options, where.environ, is_command=args.words[:1] == ["--"]))
    output.shown(shown, as_json=args.json)
    return DONE


def _profiles(words: list[str], where: Here, _options: Options) -> int:
    parser = parser_of("profiles", "The profiles there are, or the text of one.", "agent-dev profiles claude")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="print this one")
    parser.add_argument("--json", action="store_true", help="the list as one JSON document on stdout")
    args = parser.parse_args(words)
    if args.json and args.name:
        raise UsageError(message="--json is for the list of profiles", hint=f"agent-dev show --json {args.name}")
    known = load.names(os.path.realpath(where.environ.get("HOME", "/")), where.environ)
    if args.name:
        path = next((path for name, path, _ in known if name == args.name), None)
        if path is None:
            raise UsageError(message=f"no profile {args.name}", hint=", ".join(name for name, _, _ in known))
        with open(path, encoding="utf-8") as file:
            sys.stdout.write(f"# {path}\n{file.read()}")
        return DONE
    output.profiles(known, as_json=args.json)
    return DONE


def _doctor(words: list[str], where: Here, options: Options) -> int:
    from agent_dev.run import doctor  # it tries programs, and needs much for that

    parser = parser_of("doctor", "What this machine can do, found by trying, and what to do about the rest.", "agent-dev doctor")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    findings = doctor.examine(where, options)
    output.findings(findings, as_json=args.json)
    return PARTLY if any(finding.is_wrong for finding in findings) else DONE


VERBS: dict[str, Verb] = {"show": _show, "profiles": _profiles, "doctor": _doctor}
