"""The subcommand `restore`: restore the real tree to its state before a direct run."""

import os
import time

from agent_dev.cli.console import notify, warn
from agent_dev.cli.parser import make_parser
from agent_dev.cli.render import merge
from agent_dev.cli.render.format import print_json, print_line, print_wrapped
from agent_dev.config.options import RunOptions
from agent_dev.direct import direct_run, restore
from agent_dev.errors import FAILURE, SUCCESS
from agent_dev.merge.review import Review
from agent_dev.overlay.labels import format_count
from agent_dev.sanitize import visible
from agent_dev.session import removal, store
from agent_dev.session.sessions import CommandContext


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `restore`."""
    about = "Restore the tree to its state before a run with --direct. What you changed after the run is kept."
    parser = make_parser("restore", about, "agent-dev restore --dry-run")
    parser.add_argument(
        "snapshot",
        nargs="?",
        default="",
        metavar="SNAPSHOT",
        help="an id, or ID/BACKUP for a later state; default: the newest here",
    )
    parser.add_argument("--path", action="append", default=[], metavar="PATH", help="restore only PATH and everything below it")
    parser.add_argument("--dry-run", action="store_true", help="only report what would be done")
    parser.add_argument("--list", action="store_true", help="list the snapshots of this repository")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    if args.list:
        _list(direct_run.list_snapshots(context), as_json=args.json)
        for folder in direct_run.damaged_snapshots(context):
            warn(f"snapshot {os.path.basename(folder)} is damaged and not listed: {folder}")
        return SUCCESS
    direct_run.clean_up_after_killed(context.store.path, context.root, warn)
    snapshot = direct_run.find_snapshot(context, args.snapshot)
    review = restore.open_restore(snapshot, tuple(args.path), context)
    try:
        result = restore.apply_restore(review, context, notify, is_dry=args.dry_run)
        if not args.dry_run:
            restore.restore_attributes(review, result, snapshot, tuple(args.path), context)
        merge.print_merge(result, review, is_dry=args.dry_run, as_json=args.json, is_restore=True)
        if not review.changes.changes and not args.json:
            print_line(_describe_no_changes(review))
        if args.path and not args.dry_run:
            notify("hint: agent-dev restore --dry-run lists what remains to be restored")
        is_unused = args.dry_run or not review.changes.changes
    finally:
        review.close()
    if is_unused:
        removal.remove_session_now(review.session)
    else:
        store.unlock_session(review.session)
    return FAILURE if result.conflicts or review.changes.problems else SUCCESS


def _describe_no_changes(review: Review) -> str:
    if not os.listdir(review.session.root(0, "").upper):
        return "everything else equals the snapshot" if review.changes.problems else "everything equals the snapshot"
    return "only your changes since the run differ, and they are kept; agent-dev undo reverts a restore"


def _list(snapshots: tuple[direct_run.RunSnapshot, ...], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "snapshot": one.id,
                "root": one.root,
                "command": list(one.command),
                "provider": one.snapshot.provider,
                "path": one.snapshot.path,
                "id": one.snapshot.id,
                "post": one.post_id or None,
                "disabled": [{"path": each.path, "name": each.new_name} for each in one.disabled],
                "started": one.started,
                "ended": one.ended or None,
                "backups": [
                    {"backup": later.name, "path": later.path, "time": later.time} for later in direct_run.list_backups(one)
                ],
            }
            for one in snapshots
        ]
        print_json({"version": 1, "snapshots": rows})
        return
    for one in snapshots:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.started // 10**9))
        print_wrapped(
            f"{one.id}  {one.snapshot.provider:<8}  {when}  {visible(' '.join(one.command))}  {visible(one.snapshot.path)}"
        )
        for later in direct_run.list_backups(one):
            print_line(
                f"  {one.id}/{visible(later.name)}  backup: {format_count(later.files, 'file')}, {later.linked:,} hard-linked"
            )
    if not snapshots:
        print_line("no snapshots of this repository")
