"""The subcommand `profiles`."""

import os
import sys

from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import plans as output
from agent_dev.config import load
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, InvalidConfiguration, UsageError
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
        found = next((one for one in known if one[0] == args.name), None)
        if found is None:
            raise UsageError(message=f"no profile {args.name}", hint=f"profiles: {', '.join(name for name, _, _ in known)}")
        _print(*found[1:])
        return SUCCESS
    output.print_profiles(known, as_json=args.json)
    return SUCCESS


def _print(path: str, about: str) -> None:
    """Print a profile. Raises InvalidConfiguration with its description, which says what is wrong, if it is not a text file."""
    if not os.path.isfile(path):
        raise InvalidConfiguration(message=about)  # reading a FIFO would not end
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise InvalidConfiguration(message=about) from None
    sys.stdout.write(f"# {path}\n{text}")
