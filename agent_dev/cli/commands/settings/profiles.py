"""The subcommand `profiles`."""

import os
import sys

from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import plans as output
from agent_dev.config import load
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UsageError
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `profiles`."""
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
