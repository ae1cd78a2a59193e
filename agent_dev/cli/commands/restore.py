"""The word that brings back what was there before an agent worked in the real tree."""

import os
import time

from agent_dev.cli.commands.parser import Verb, parser_of
from agent_dev.cli.main import say
from agent_dev.cli.render import merge as merging
from agent_dev.cli.render.format import as_document, fitted, line, numbered
from agent_dev.direct import direct
from agent_dev.errors import DONE, PARTLY
from agent_dev.merge.review import Review
from agent_dev.run.prepare import Options
from agent_dev.sanitize import visible
from agent_dev.session import removal as ended
from agent_dev.session import store
from agent_dev.session.sessions import Here


def _restore(words: list[str], where: Here, _options: Options) -> int:
    about = "Bring back what was there before an agent ran with --direct. What you changed since it ended stays as you have it."
    parser = parser_of("restore", about, "agent-dev restore --dry-run")
    parser.add_argument(
        "snapshot",
        nargs="?",
        default="",
        metavar="SNAPSHOT",
        help="an id, or ID/ROUND for what was kept later; else the newest here",
    )
    parser.add_argument("--path", action="append", default=[], metavar="PATH", help="only PATH and all below it")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--list", action="store_true", help="the snapshots of this repository")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    if args.list:
        _list(direct.listed(where), as_json=args.json)
        return DONE
    taken = direct.find(where, args.snapshot)
    review = direct.restoring(taken, tuple(args.path), where)
    try:
        done = direct.carry_out(review, where, say, is_dry=args.dry_run)
        merging.merged(done, review, is_dry=args.dry_run, as_json=args.json, is_restore=True)
        if not review.changes.changes and not args.json:
            line(_why_nothing(review))
        is_needless = args.dry_run or not review.changes.changes
    finally:
        review.close()
    if is_needless:
        ended.drop(review.session)
    else:
        store.let_go(review.session)
    return PARTLY if done.conflicts else DONE


def _why_nothing(review: Review) -> str:
    if not os.listdir(review.session.root(0, "").upper):
        return "all is as it was then"
    return "what is not as it was then was changed since the agent ended, and stays; agent-dev undo takes a restore back"


def _list(found: tuple[direct.Taken, ...], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "snapshot": one.id,
                "root": one.root,
                "command": list(one.command),
                "provider": one.snapshot.provider,
                "path": one.snapshot.path,
                "id": one.snapshot.id,
                "pair": one.pair or None,
                "started": one.started,
                "ended": one.ended or None,
                "rounds": [{"round": later.name, "path": later.path, "time": later.time} for later in direct.rounds(one)],
            }
            for one in found
        ]
        as_document({"version": 1, "snapshots": rows})
        return
    for one in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.started // 10**9))
        fitted(f"{one.id}  {one.snapshot.provider:<8}  {when}  {visible(' '.join(one.command))}  {visible(one.snapshot.path)}")
        for later in direct.rounds(one):
            line(
                f"  {one.id}/{visible(later.name)}  kept later: {numbered(later.files, 'file')}, {later.linked:,} of them shared"
            )
    if not found:
        line("no agent ever worked here directly")


VERBS: dict[str, Verb] = {"restore": _restore}
