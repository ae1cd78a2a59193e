"""The subcommand `trust`."""

import os
import sys

from agent_dev.cli import typeahead
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import home as output
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.run import repository_trust
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `trust`."""
    about = "Trust the current version of the repository's .agent-dev.yaml; show it and ask first."
    parser = make_parser("trust", about, "agent-dev trust --show")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--show", action="store_true", help="only show the file and whether it is trusted")
    group.add_argument("--revoke", action="store_true", help="stop trusting it")
    group.add_argument("--yes", action="store_true", help="trust it without asking")
    parser.add_argument("--json", action="store_true", help="with --show: print one JSON document")
    args = parser.parse_args(argv)
    if args.json and not args.show:
        raise UsageError(message="--json requires --show", hint="agent-dev trust --show --json")
    if args.revoke:
        output.print_revoked(repository_trust.revoke(context))
        return SUCCESS
    status, request = repository_trust.read_status(context)
    output.print_trust_status(status, as_json=args.json)
    if args.show or status.state in (repository_trust.NONE, repository_trust.TRUSTED):
        return SUCCESS
    if request is None:
        repository_trust.raise_problems(status)
    elif args.yes or _confirm():
        repository_trust.grant(context, request)
        output.print_trusted(context.root)
        return SUCCESS
    return FAILURE


def _confirm() -> bool:
    """Ask for a confirmation on the terminal; no answer means no. Raises UsageError without a terminal."""
    if not os.isatty(0):
        raise UsageError(
            message="cannot ask for confirmation: stdin is not a terminal",
            hint="agent-dev trust --show, then agent-dev trust --yes",
        )
    typeahead.drop_typeahead()
    sys.stderr.write("agent-dev: trust it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
