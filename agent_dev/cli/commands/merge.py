"""The word that brings changes home. What only commits need is read when commits are meant."""

import argparse
import os
from dataclasses import replace

from agent_dev.cli import selection_flags as taking
from agent_dev.cli.commands import merge_commits_flags as commit_flags
from agent_dev.cli.commands.open_review import opened
from agent_dev.cli.commands.parser import Verb, add_session, parser_of
from agent_dev.cli.main import say
from agent_dev.cli.render import merge as output
from agent_dev.cli.render.format import name
from agent_dev.cli.screen import choose_frontend as screens
from agent_dev.errors import DONE, PARTLY, UsageError
from agent_dev.merge import merge
from agent_dev.merge import select_by_flags as pick
from agent_dev.merge.retention import expire as retention
from agent_dev.merge.review import Review
from agent_dev.merge_engine.merge_plan import MergePlan
from agent_dev.run.prepare import Options
from agent_dev.session import sessions, store
from agent_dev.session.sessions import Here


def _merge(words: list[str], where: Here, _options: Options) -> int:
    parser = parser_of(
        "merge",
        "Bring chosen changes into the real tree. Without flags that choose: the screen.",
        "agent-dev merge --take src/ --take README.md:1,3",
    )
    add_session(parser)
    taking.add_flags(parser)
    parser.add_argument("--atomic", action="store_true", help="merge nothing when something chosen is in conflict")
    parser.add_argument("--yes-delete-many", action="store_true", help="delete a large share of the tree's files")
    parser.add_argument("--export", default="", metavar="DIR|FILE.patch", help="write it there instead of merging it")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--plain", action="store_true", help="questions in plain lines instead of the screen")
    parser.add_argument("--every-session", action="store_true", help="the screen for each session that waits here")
    commit_flags.add_flags(parser)
    args = parser.parse_args(words)
    if commit_flags.is_asked(args):
        from agent_dev.cli.commands import (
            merge_commits as bringing,  # all that knows of commits: a quarter of what a merge of files would import
        )

        return bringing.bring(args, where)
    is_by_flags = taking.chooses(args)
    if args.every_session:
        return _every(args, where, is_by_flags=is_by_flags)
    one = sessions.find(where, args.session)
    if one.state == store.RUNNING and not is_by_flags:
        return screens.watch(one, where)
    patch = taking.patch_of(args)
    with opened(one, where) as review:
        if not is_by_flags:
            code = screens.show(review, where, is_plain=args.plain)
            retention.thin(where, say)
            return code
        chosen, asked = pick.choose(review, taking.wish(args, patch, review, where))
        planned = merge.plan(review, chosen, asked)
        if args.export:
            return _export(review, planned, args.export)
        if not args.dry_run and not args.yes_delete_many:
            taking.guard(review, planned, where)
        stops = args.dry_run or (args.atomic and bool(planned.conflicts))
        merged = (
            merge.preview(review, planned) if stops else merge.carry_out(review, planned, where.store, say, is_atomic=args.atomic)
        )
        if args.atomic and planned.conflicts and not args.dry_run:
            merged = replace(merged, taken=())
        output.merged(merged, review, is_dry=args.dry_run, as_json=args.json)
        retention.thin(where, say)
        return PARTLY if merged.conflicts or ((args.take or args.patch) and not merged.taken) else DONE


def _every(args: argparse.Namespace, where: Here, *, is_by_flags: bool) -> int:
    if is_by_flags or args.session:
        raise UsageError(message="--every-session shows the screen for each", hint="agent-dev merge --every-session")
    return screens.every(where, is_plain=args.plain)


def _export(review: Review, planned: MergePlan, target: str) -> int:
    from agent_dev.merge import export  # rare

    roots = review.record["roots"]
    gone = export.export(review, planned, target, lambda key: os.fsencode(name(key, roots).lstrip("/")))
    output.exported(len(planned.taken), target, [name(key, roots) for key in gone])
    return PARTLY if planned.conflicts else DONE


VERBS: dict[str, Verb] = {"merge": _merge}
