"""The words that show what sessions hold."""

import os
import re
from dataclasses import replace

from agent_dev import taking
from agent_dev.commands import compare, found, sessions
from agent_dev.commands.prepare import Options
from agent_dev.commands.sessions import Here
from agent_dev.errors import DONE, SessionBusy
from agent_dev.host import store
from agent_dev.output import commits as commits_output
from agent_dev.output import history as history_output
from agent_dev.output import looking as output
from agent_dev.verbs import bringing
from agent_dev.verbs.opening import commits_of, opened, pointers_of
from agent_dev.verbs.parser import Verb, add_session, below, parser_of, session_parser

_SPAN = re.compile(r"\d+\.\.\d*")


def _status(words: list[str], where: Here, _options: Options) -> int:
    parser = parser_of(
        "status", "What a session holds: its changes with their risks, and its commits.", "agent-dev status --json"
    )
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    one = sessions.find(where, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if one.state == store.RUNNING:
        raise SessionBusy(session=one.name, hint=f"agent-dev stop {one.name}, or wait until the agent has ended")
    with opened(one, where) as review:
        made = commits_of(review, where)
        held = output.Held(review.counted(), made, pointers_of(review, where, made))
        output.status(replace(one, record=review.record), held, as_json=args.json)
    return DONE


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
    with opened(one, where) as review:
        output.diff(review, taking.keys(names, review, where), is_stat=args.stat, with_blocks=args.blocks)
    return DONE


def _between(names: list[str], span: str, where: Here, *, is_stat: bool) -> int:
    """Show what changed between two checkpoints, of the session that is named before them."""
    at = names.index(span)
    one = sessions.find(where, names[0] if at else "")
    first, _, second = span.partition("..")
    paths = tuple(below(path, where) for path in names[at + 1 :])
    is_held = one.state != store.RUNNING
    one = sessions.hold(one) if is_held else one
    try:
        found = compare.compare(one, int(first), int(second or 0), paths)
        history_output.compared(found, one.record["roots"], is_stat=is_stat)
    finally:
        if is_held:
            store.let_go(one.session)
    return DONE


def _commits(words: list[str], where: Here, _options: Options) -> int:
    parser = session_parser("commits", "What the agent's git holds: commits, branches and tags that moved, stashes.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    with opened(bringing.found(args.session, where), where) as review:
        commits_output.commits(found.look(review), review.session.id, as_json=args.json)
    return DONE


def _sessions(words: list[str], where: Here, _options: Options) -> int:
    parser = parser_of(
        "sessions", "Sessions of this repository that are running or wait for a merge.", "agent-dev sessions --all"
    )
    parser.add_argument("--all", action="store_true", help="of every repository, merged ones too")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    output.sessions(sessions.of_root(where, every=args.all), as_json=args.json, with_roots=args.all)
    return DONE


VERBS: dict[str, Verb] = {"status": _status, "diff": _diff, "commits": _commits, "sessions": _sessions}
