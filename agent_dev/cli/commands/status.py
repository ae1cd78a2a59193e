"""The words that tell what there is: sessions, and what one holds. They read nothing of merging."""

from dataclasses import replace

from agent_dev.cli.commands.commits_of_session import commits_of, pointers_of
from agent_dev.cli.commands.open_review import opened
from agent_dev.cli.commands.parser import Verb, add_session, parser_of
from agent_dev.cli.render import changes as output
from agent_dev.errors import DONE, SessionBusy
from agent_dev.run.prepare import Options
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here


def _status(words: list[str], where: Here, _options: Options) -> int:
    parser = parser_of(
        "status", "What a session holds: its changes with their risks, and its commits.", "agent-dev status --json"
    )
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    one = sessions.find(where, args.session, (*sessions.OPEN, store.MERGED) if args.session else sessions.OPEN)
    if one.state == store.RUNNING:
        raise SessionBusy(
            session=one.name, what="still running", hint=f"agent-dev stop {one.name}, or wait until the agent has ended"
        )
    with opened(one, where) as review:
        made = commits_of(review, where)
        held = output.Held(review.counted(), made, pointers_of(review, where, made))
        output.status(replace(one, record=review.record), held, as_json=args.json)
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


VERBS: dict[str, Verb] = {"status": _status, "sessions": _sessions}
