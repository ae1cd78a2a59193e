"""Commits that are brought home by `merge`, and what is said of them."""

import argparse
from dataclasses import replace

from agent_dev import screens
from agent_dev.cli import say
from agent_dev.commands import bring as command
from agent_dev.commands.merge import Notice
from agent_dev.commands.sessions import Here
from agent_dev.core.bring import Wish
from agent_dev.core.clash import Answers
from agent_dev.errors import DONE, PARTLY
from agent_dev.output import commits as output
from agent_dev.verbs.holding import with_commits
from agent_dev.verbs.opening import opened


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
