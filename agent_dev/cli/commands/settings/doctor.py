"""The subcommand `doctor`."""

import os
import sys
from typing import TYPE_CHECKING

from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import doctor as output
from agent_dev.cli.screen.screen_settings import screen_problems
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.session.sessions import CommandContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_dev.run.doctor import Finding


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `doctor`."""
    from agent_dev.run import doctor  # it runs programs and imports much

    parser = make_parser("doctor", "Check what this machine supports, and print hints for what is missing.", "agent-dev doctor")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--report", action="store_true", help="print a text for a bug report, with paths and secrets masked")
    parser.add_argument(
        "--on", default="", metavar="HOST", help="check hosts or an engine for `tx --on`, instead of this machine"
    )
    args = parser.parse_args(argv)
    if args.report and (args.json or args.on):
        other = "--json" if args.json else "--on"
        raise UsageError(message=f"--report and {other} cannot be combined", hint="agent-dev doctor --report")
    if args.on:
        return _check_places(args.on, context, as_json=args.json)
    findings = (*doctor.run_checks(context, options), *_screen_settings(context))
    if args.report:
        _print_report(findings, context, options)
        return FAILURE if any(finding.has_failed for finding in findings) else SUCCESS
    output.print_findings(findings, as_json=args.json)
    return FAILURE if any(finding.has_failed for finding in findings) else SUCCESS


def _screen_settings(context: CommandContext) -> "Sequence[Finding]":
    """Report settings of the screen that it would refuse."""
    from agent_dev.run.doctor import Finding, FindingState

    return [Finding("screen", problem, FindingState.FAILED, "fix that file") for problem in screen_problems(context)]


def _check_places(places: str, context: CommandContext, *, as_json: bool) -> int:
    from agent_dev.fleet import check_places  # imports bundles

    findings = check_places.check_places(places, context)
    output.print_findings(findings, as_json=as_json)
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
