"""The word that tells what a session's git holds. It reads nothing of merging, and nothing that compares texts."""

from contextlib import closing

from agent_dev.cli.commands.open_session import held, with_commits
from agent_dev.cli.commands.parser import Verb, session_parser
from agent_dev.commits.prefetch import begun
from agent_dev.errors import DONE
from agent_dev.run.prepare import Options
from agent_dev.session import store
from agent_dev.session.sessions import Here


def _commits(words: list[str], where: Here, _options: Options) -> int:
    parser = session_parser("commits", "What the agent's git holds: commits, branches and tags that moved, stashes.")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    with (
        held(with_commits(args.session, where)) as session,
        begun(session, store.read(session), where.environ) as one,
    ):
        # While git is at work: what opens a session, and tells of it, is more than what asked git.
        from agent_dev.cli.render import commits as output
        from agent_dev.commits.report import looked
        from agent_dev.merge.review import open_review

        with closing(open_review(session, where.environ, with_risks=False)) as review:
            output.commits(looked(review, one), session.id, as_json=args.json)
    return DONE


VERBS: dict[str, Verb] = {"commits": _commits}
