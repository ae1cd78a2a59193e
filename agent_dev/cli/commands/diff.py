"""The words that show what sessions hold."""

import os
import re

from agent_dev.checkpoint import compare
from agent_dev.cli import selection_flags as taking
from agent_dev.cli.commands.open_review import looked_at
from agent_dev.cli.commands.parser import Verb, below, parser_of
from agent_dev.cli.render import changes as output
from agent_dev.cli.render import checkpoints as history_output
from agent_dev.errors import DONE
from agent_dev.run.prepare import Options
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here

_SPAN = re.compile(r"\d+\.\.\d*")


def _diff(words: list[str], where: Here, _options: Options) -> int:
    parser = parser_of("diff", "The changes of a session as a patch on stdout.", "agent-dev diff src/ | less -R")
    parser.usage = "agent-dev diff [-h] [--stat] [--blocks] [SESSION] [A..B] [PATH…]"
    text = "a session's id or --name (else the newest here), checkpoints A..B (A.. for now), then paths; all after -- are paths"
    parser.add_argument("words", nargs="*", metavar="[SESSION] [PATH…]", help=text)
    parser.add_argument("--stat", action="store_true", help="numbers instead of the patch")
    parser.add_argument("--blocks", action="store_true", help="with the numbers by which merge --take PATH:1,3 takes blocks")
    args = parser.parse_args(words)
    names = list(args.words)
    span = next((word for word in names[:2] if _SPAN.fullmatch(word) and not os.path.lexists(os.path.join(where.cwd, word))), "")
    if span:
        return _between(names, span, where, is_stat=args.stat)
    given = words[: words.index("--")] if "--" in words else words
    is_named = bool(names) and names[0] in given and sessions.is_session(sessions.listed(where.store), names[0]) is not None
    one = sessions.find(where, names.pop(0) if is_named else "")
    with looked_at(one, where) as review:
        output.diff(review, taking.keys(names, review, where), is_stat=args.stat, with_blocks=args.blocks)
    return DONE


def _between(names: list[str], span: str, where: Here, *, is_stat: bool) -> int:
    """Show what changed between two checkpoints, of the session that is named before them."""
    at = names.index(span)
    one = sessions.find(where, names[0] if at else "")
    first, _, second = span.partition("..")
    paths = tuple(below(path, where, one) for path in names[at + 1 :])
    is_held = one.state != store.RUNNING
    one = sessions.hold(one) if is_held else one
    try:
        found = compare.compare(one, int(first), int(second or 0), paths)
    finally:
        if is_held:
            store.let_go(one.session)
    history_output.compared(found, one.record["roots"], is_stat=is_stat)
    return DONE


VERBS: dict[str, Verb] = {"diff": _diff}
