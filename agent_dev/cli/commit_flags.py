"""The flags of `merge` that import commits."""

import argparse

from agent_dev.cli import selection_flags
from agent_dev.errors import UsageError


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for commits."""
    text = "import the commits of the start branch, of REF, or A..B"
    parser.add_argument("--commits", action="append", nargs="?", const="", metavar="REF", help=text)
    parser.add_argument("--as", dest="name", default="", metavar="NAME", help="with --commits: import into the new branch NAME")
    parser.add_argument("--squash", action="store_true", help="with --commits: import a single commit with you as author")
    parser.add_argument("-m", "--message", default="", metavar="TEXT", help="with --squash: the commit message")
    text = "with --commits: rebase them onto your branch, or merge if not linear"
    parser.add_argument("--onto-current", action="store_true", help=text)


def is_import_requested(args: argparse.Namespace) -> bool:
    """Return whether commits are to be imported. Raises UsageError for flags that conflict."""
    others = bool(args.name or args.squash or args.message or args.onto_current)
    if args.commits is None:
        if others:
            raise UsageError(message="--as, --squash, --message and --onto-current require --commits", hint="--commits BRANCH")
        return False
    if selection_flags.selects_changes(args) or args.atomic or args.yes_delete_many:
        raise UsageError(
            message="--commits cannot be combined with a selection of files",
            hint="apply other changes with a separate agent-dev merge",
        )
    if args.name and args.onto_current:
        raise UsageError(
            message="--as and --onto-current cannot be combined", hint="--as creates a branch, --onto-current extends yours"
        )
    return True
