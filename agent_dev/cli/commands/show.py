"""The subcommands about profiles and this machine."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from agent_dev.cli.parser import Verb, make_parser
from agent_dev.cli.render import machine as output
from agent_dev.config import load
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UnknownAgent, UsageError
from agent_dev.run.request import AGENT, COMMAND, RunRequest
from agent_dev.session.sessions import CommandContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_dev.run.doctor import Finding

_FLAGS = ("--all", "--json", "-q", "--quiet", "-h", "--help")


def _show(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    from agent_dev.run import show

    parser = make_parser(
        "show",
        "Show the settings, their origins and the sandbox of a run. Runs nothing.",
        "agent-dev show claude",
    )
    parser.add_argument("--all", action="store_true", help="show the defaults, the system's mounts and the bwrap command, too")
    parser.add_argument("--json", action="store_true", help="print all as one JSON document")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="AGENT [ARGS…]", help="the agent and its arguments, as for a run"
    )
    parser.usage = "agent-dev show [--all] [--json] AGENT [ARGS…]"
    args = parser.parse_args(_own_flags_first(argv))
    names = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not names:
        raise UsageError(message="show needs an agent", hint="agent-dev show claude")
    kind = COMMAND if args.words[:1] == ["--"] else AGENT
    try:
        shown = show.preview_run(RunRequest(tuple(names), options, context.environ, kind))
    except UnknownAgent as error:
        program = "COMMAND" if names[0] == load.DEFAULT_PROFILE else names[0]
        error.hint = f"to show the run of a program: agent-dev show -- {program}"
        raise
    output.print_run_plan(shown, as_json=args.json, with_defaults=args.all)
    if shown.problem is not None:
        raise shown.problem
    return SUCCESS


def _own_flags_first(argv: list[str]) -> list[str]:
    """Return the arguments with flags of `show` that follow the agent's name before it: `show bash --all`."""
    name = next((number for number, word in enumerate(argv) if not word.startswith("-")), len(argv))
    if "--" in argv[:name]:
        return argv
    end = next((number for number, word in enumerate(argv) if number > name and word not in _FLAGS), len(argv))
    return [*argv[:name], *argv[name + 1 : end], *argv[name : name + 1], *argv[end:]]


def _profiles(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    parser = make_parser("profiles", "List the profiles, or print one.", "agent-dev profiles claude")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="print this profile")
    parser.add_argument("--json", action="store_true", help="print the list as one JSON document")
    args = parser.parse_args(argv)
    if args.json and args.name:
        raise UsageError(message="--json cannot be combined with a profile", hint=f"agent-dev show --json {args.name}")
    known = load.list_profiles(os.path.realpath(context.environ.get("HOME", "/")), context.environ)
    if args.name:
        path = next((path for name, path, _ in known if name == args.name), None)
        if path is None:
            raise UsageError(message=f"no profile {args.name}", hint=f"profiles: {', '.join(name for name, _, _ in known)}")
        with open(path, encoding="utf-8") as file:
            sys.stdout.write(f"# {path}\n{file.read()}")
        return SUCCESS
    output.print_profiles(known, as_json=args.json)
    return SUCCESS


def _doctor(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    from agent_dev.run import doctor  # it runs programs and imports much

    parser = make_parser("doctor", "Test what this machine supports, and print a hint for what is missing.", "agent-dev doctor")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--report", action="store_true", help="print a text for a bug report, with paths and secrets masked")
    args = parser.parse_args(argv)
    findings = doctor.run_checks(context, options)
    if args.report:
        _print_report(findings, context, options)
        return FAILURE if any(finding.has_failed for finding in findings) else SUCCESS
    output.print_findings(findings, as_json=args.json)
    return FAILURE if any(finding.has_failed for finding in findings) else SUCCESS


def _print_report(findings: "Sequence[Finding]", context: CommandContext, options: RunOptions) -> None:
    from agent_dev.bug_report.report import make_report
    from agent_dev.run import config_report

    values = config_report.effective_values(context, options, "")
    keys = {one.key for one in values if not config_report.is_default(one.origin)}
    places = {
        "repository": context.root,
        "state directory": context.store.path,
        "home": os.path.realpath(context.environ.get("HOME", "/")),
    }
    sys.stdout.write(make_report(output.finding_lines(findings), sorted(keys), places, context.environ))


VERBS: dict[str, Verb] = {"show": _show, "profiles": _profiles, "doctor": _doctor}
