"""The words that tell what there is: sessions, what one holds, what it committed. They read nothing of merging."""

from contextlib import closing
from dataclasses import replace

from agent_dev.commands import found, sessions
from agent_dev.commands.prepare import Options
from agent_dev.commands.review import open_review
from agent_dev.commands.sessions import Here
from agent_dev.errors import DONE, SessionBusy
from agent_dev.host import store
from agent_dev.output import commits as commits_output
from agent_dev.output import looking as output
from agent_dev.verbs.committed import commits_of, pointers_of, with_commits
from agent_dev.verbs.opening import held, opened
from agent_dev.verbs.parser import Verb, add_session, parser_of, session_parser


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


def _commits(words: list[str], where: Here, _options: Options) -> int:
    parser = session_parser("commits", "What the agent's git holds: commits, branches and tags that moved, stashes.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    with (
        held(with_commits(args.session, where)) as session,
        found.begun(session, store.read(session), where.environ) as one,  # git is at work while the session is opened
        closing(open_review(session, where.environ, with_risks=False)) as review,
    ):
        commits_output.commits(found.looked(review, one), session.id, as_json=args.json)
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


VERBS: dict[str, Verb] = {"status": _status, "commits": _commits, "sessions": _sessions}
