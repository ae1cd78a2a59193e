"""The words that take merges back, do them again, and list them."""

import os

from agent_dev.cli.commands.parser import Verb, parser_of
from agent_dev.cli.main import say
from agent_dev.cli.render import undo as output
from agent_dev.errors import DONE, PARTLY, UsageError
from agent_dev.merge import history as merges
from agent_dev.merge import undo
from agent_dev.run.prepare import Options
from agent_dev.session.sessions import Here


def _check(name: str, where: Here) -> None:
    """Raise UsageError for a merge that there is not."""
    if name and ("/" in name or not os.path.isdir(f"{where.store.merges}/{name}")):
        raise UsageError(message=f"no merge {name} here", hint="agent-dev merges lists them")


def _undo(words: list[str], where: Here, _options: Options) -> int:
    about = "Take a merge back: what was there comes back, but for what you changed since; its changes are in the session again."
    parser = parser_of("undo", about, "agent-dev undo")
    parser.add_argument("merge", nargs="?", default="", metavar="MERGE", help="the newest here when none is named")
    three_way = "of a file that you changed since, take back what the merge did and keep what you did, where both fit together"
    parser.add_argument("--three-way", action="store_true", help=three_way)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    _check(args.merge, where)
    return _told(undo.undo(where, args.merge, say, is_three_way=args.three_way), as_json=args.json, word="undone")


def _redo(words: list[str], where: Here, _options: Options) -> int:
    parser = parser_of("redo", "Do a merge again that was undone.", "agent-dev redo")
    parser.add_argument("merge", nargs="?", default="", metavar="MERGE", help="the one undone last when none is named")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    _check(args.merge, where)
    return _told(undo.redo(where, args.merge, say), as_json=args.json, word="merged again")


def _told(done: undo.Undone, *, as_json: bool, word: str) -> int:
    output.undone(done, as_json=as_json, word=word)
    return PARTLY if done.left else DONE


def _merges(words: list[str], where: Here, _options: Options) -> int:
    parser = parser_of("merges", "What was merged here, newest last, and what of it stands.", "agent-dev merges")
    parser.add_argument("--all", action="store_true", help="of every repository")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    output.merges(merges.recorded(where, every=args.all), as_json=args.json, with_roots=args.all)
    return DONE


VERBS: dict[str, Verb] = {"undo": _undo, "redo": _redo, "merges": _merges}
