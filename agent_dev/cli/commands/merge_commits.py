"""Commits that are brought home by `merge`, and what is said of them."""

import argparse
from dataclasses import replace

from agent_dev.cli.commands.open_review import opened
from agent_dev.cli.commands.open_session import with_commits
from agent_dev.cli.main import say
from agent_dev.cli.render import commits as output
from agent_dev.cli.screen import choose_frontend as screens
from agent_dev.commits import bring as command
from agent_dev.commits.targets import Wish
from agent_dev.errors import DONE, PARTLY
from agent_dev.git.merge_tree_conflict import Answers
from agent_dev.merge.merge import Notice
from agent_dev.session.sessions import Here


def bring(args: argparse.Namespace, where: Here) -> int:
    """Bring commits home and say what came."""
    wish = Wish(tuple(args.commits), args.name, args.squash, args.onto_current, args.message, is_dry=args.dry_run)
    with opened(with_commits(args.session, where), where) as review:

        def again(answers: Answers, notice: Notice) -> command.Brought:
            asked = replace(wish, answers=answers)
            return command.bring(review, asked, where.store, notice, with_trailers=where.profile.commit_trailers)

        done = again({}, say)
        if done.met and not (args.dry_run or args.json) and screens.is_possible(where.environ):
            return screens.settle(review, where, done, again)
    output.brought(done, is_dry=args.dry_run, as_json=args.json)
    return PARTLY if done.conflicts or done.why else DONE
