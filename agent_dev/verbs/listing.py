"""The word that tells what a session's git holds. It reads nothing of merging, and nothing that compares texts."""

from contextlib import closing

from agent_dev.commands.asked import begun
from agent_dev.commands.prepare import Options
from agent_dev.commands.sessions import Here
from agent_dev.errors import DONE
from agent_dev.host import store
from agent_dev.verbs.holding import held, with_commits
from agent_dev.verbs.parser import Verb, session_parser


def _commits(words: list[str], where: Here, _options: Options) -> int:
    parser = session_parser("commits", "What the agent's git holds: commits, branches and tags that moved, stashes.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    with (
        held(with_commits(args.session, where)) as session,
        begun(session, store.read(session), where.environ) as one,
    ):
        # While git is at work: what opens a session, and tells of it, is more than what asked git.
        from agent_dev.commands.found import looked
        from agent_dev.commands.review import open_review
        from agent_dev.output import commits as output

        with closing(open_review(session, where.environ, with_risks=False)) as review:
            output.commits(looked(review, one), session.id, as_json=args.json)
    return DONE


VERBS: dict[str, Verb] = {"commits": _commits}
