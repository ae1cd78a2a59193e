"""The subcommand `sessions`. It imports no modules for merging."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_dev.cli.parser import add_color_argument, make_parser
from agent_dev.cli.render import changes as output
from agent_dev.cli.render.colour import choose_palette
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS
from agent_dev.session import discarded, sessions
from agent_dev.session.sessions import CommandContext, ListedSession

if TYPE_CHECKING:
    from agent_dev.session.shared_changes import SharedChange


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `sessions`."""
    if argv[:1] == ["rename"]:
        from agent_dev.cli.commands.sessions.rename_session import rename_session  # it imports modules for merging

        return rename_session(argv[1:], context)
    parser = make_parser(
        "sessions", "List the running and waiting sessions of this repository and its work trees.", "agent-dev sessions --all"
    )
    parser.usage = "agent-dev sessions [-h] [-q] [--all] [--json] [--color WHEN]\n       agent-dev sessions rename [SESSION] NAME"
    parser.add_argument("--all", action="store_true", help="list those of all repositories, and merged and discarded ones")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_color_argument(parser)
    args = parser.parse_args(argv)
    if args.all:
        found = (*discarded.list_discarded(context.store), *sessions.sessions_of_repository(context, every=True))
    else:
        found = sessions.sessions_of_work_trees(context)
    palette = choose_palette(context.environ, args.color)
    shared = _shared_changes(found, context)
    with_roots = args.all or any(not one.problem and one.record["root"] != context.root for one in found)
    output.print_sessions(found, shared, as_json=args.json, with_roots=with_roots, palette=palette)
    return SUCCESS


def _shared_changes(found: Sequence[ListedSession], context: CommandContext) -> "tuple[SharedChange, ...]":
    """Return the files that several of the sessions have changed."""
    if sum(one.state in sessions.OPEN for one in found) < 2:
        return ()
    from agent_dev.session import shared_changes  # rare

    return shared_changes.find_shared_changes(found, context.environ)
