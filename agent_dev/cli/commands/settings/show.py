"""The subcommand `show`."""

import argparse

from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import plans as output
from agent_dev.config import load
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UnknownAgent, UsageError
from agent_dev.run.request import AGENT, COMMAND, RunRequest
from agent_dev.session.sessions import CommandContext

_FLAGS = ("--all", "--json", "-q", "--quiet", "-h", "--help")


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `show`."""
    from agent_dev.run import show

    parser = make_parser(
        "show",
        "Show the settings, their origins and the sandbox of a run. Nothing is run.",
        "agent-dev show claude",
    )
    parser.add_argument("--all", action="store_true", help="also show the defaults, the system's mounts and the bwrap command")
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
    """Return the arguments with the flags of `show` moved before the agent's name: `show bash --all`."""
    name = next((number for number, word in enumerate(argv) if not word.startswith("-")), len(argv))
    if "--" in argv[:name]:
        return argv
    end = next((number for number, word in enumerate(argv) if number > name and word not in _FLAGS), len(argv))
    return [*argv[:name], *argv[name + 1 : end], *argv[name : name + 1], *argv[end:]]
