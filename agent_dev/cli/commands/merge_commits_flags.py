"""The flags of `merge` that bring commits home."""

import argparse

from agent_dev.cli import selection_flags as taking
from agent_dev.errors import UsageError


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for commits."""
    text = "bring commits home instead of files: of the branch the session began on, of BRANCH, some commits or A..B"
    parser.add_argument("--commits", action="append", nargs="?", const="", metavar="BRANCH|COMMIT|A..B", help=text)
    parser.add_argument("--as", dest="name", default="", metavar="NAME", help="with --commits: as a new branch")
    parser.add_argument("--squash", action="store_true", help="with --commits: as one commit, written by you")
    parser.add_argument("-m", "--message", default="", metavar="TEXT", help="with --squash: what that commit says")
    text = "with --commits: on top of what you committed meanwhile; merged there when the agent made merges"
    parser.add_argument("--onto-current", action="store_true", help=text)


def is_asked(args: argparse.Namespace) -> bool:
    """Whether commits are to come home. Raises UsageError for flags that do not go together."""
    others = bool(args.name or args.squash or args.message or args.onto_current)
    if args.commits is None:
        if others:
            raise UsageError(message="--as, --squash, --message and --onto-current go with --commits", hint="--commits BRANCH")
        return False
    if taking.chooses(args) or args.atomic or args.yes_delete_many:
        raise UsageError(message="--commits brings commits with their files", hint="choose other changes by a merge of their own")
    if args.name and args.onto_current:
        raise UsageError(message="--as makes a branch of its own, --onto-current goes onto yours", hint="one of them")
    return True
