"""The subcommand `merge`. Modules for commits are imported only when commits are merged."""

import argparse

from agent_dev.cli import commit_flags, selection_flags
from agent_dev.cli.commands.review.open_review import open_locked
from agent_dev.cli.console import notify, warn
from agent_dev.cli.parser import add_session_argument, make_parser
from agent_dev.cli.render import merge as output
from agent_dev.cli.screen import frontend
from agent_dev.config.options import RunOptions
from agent_dev.errors import FAILURE, SUCCESS, UsageError
from agent_dev.merge import merge, select_by_options
from agent_dev.merge.review import Review
from agent_dev.merge_engine.merge_plan import MergePlan
from agent_dev.overlay.fold_renames import fold_changes
from agent_dev.overlay.labels import display_path, patch_path
from agent_dev.progress import show_progress
from agent_dev.quick_dataclass import replace
from agent_dev.retention import automatic
from agent_dev.risk import load as risk_load
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession
from tui.source import Ending


def run(argv: list[str], context: CommandContext, options: RunOptions) -> int:
    """Run the subcommand `merge`."""
    parser = make_parser(
        "merge",
        "Apply selected changes to the working tree. By default, select them on the review screen.",
        "agent-dev merge --take src/ --take README.md:1,3",
    )
    parser.usage = "agent-dev merge [OPTIONS] [SESSION]"
    add_session_argument(parser)
    selection_flags.add_flags(parser)
    parser.add_argument("--atomic", action="store_true", help="apply nothing if a selected change conflicts")
    parser.add_argument("--yes-delete-many", action="store_true", help="allow deleting a large share of the files")
    parser.add_argument(
        "--export", default="", metavar="TARGET", help="write the changes to a new directory or a *.patch file instead"
    )
    parser.add_argument("--html", metavar="FILE", help="write the review as a static page instead (-: stdout)")
    parser.add_argument("--dry-run", action="store_true", help="only report what would be done")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--plain", action="store_true", help="ask line by line instead of on the screen")
    parser.add_argument("--every-session", action="store_true", help="review each waiting session in turn")
    commit_flags.add_flags(parser)
    args = parser.parse_args(argv)
    if args.html is not None:
        from agent_dev.cli.commands.review import merge_html  # it imports the modules of commits

        return merge_html.write_page(args, context)
    if commit_flags.is_import_requested(args):
        from agent_dev.cli.commands.review import merge_commits  # a quarter of the imports of a merge of files

        return merge_commits.import_commits(args, context)
    if args.every_session:
        return _review_all(args, context, options)
    one = sessions.find_session(context, args.session, damaged=bool(args.export))
    if one.problem:
        return _salvage(one, args.export)
    return _merge_one(one, args, context, options)


def _merge_one(one: ListedSession, args: argparse.Namespace, context: CommandContext, options: RunOptions) -> int:
    has_selection = selection_flags.selects_changes(args)
    if one.state == store.RUNNING and not has_selection:
        return frontend.watch_session(one, context)
    if args.allow:
        risk_load.check_rule_names(args.allow, context.environ)
    patch = selection_flags.read_patch(args)
    with open_locked(one, context) as review:
        if has_selection:
            end = _apply_selection(review, args, patch, context)
        else:
            end = frontend.review_session(review, context, is_plain=args.plain)
        automatic.clean_after_merge(context)
    from agent_dev.cli.post_run_review import end_session  # only after a review

    end_session(end, one.session.id, context, options)
    return end.code


def _apply_selection(
    review: Review, args: argparse.Namespace, patch: bytes | None, context: CommandContext
) -> frontend.ReviewEnd:
    """Apply the selection that the options describe, export it, or only report it."""
    planned, has_rest = _plan(review, selection_flags.parse_selection(args, patch, review, context))
    if args.export:
        return frontend.ReviewEnd(_export(review, planned, args.export))
    if not args.dry_run and not args.yes_delete_many:
        selection_flags.refuse_mass_deletion(review, planned, context)
    is_preview = args.dry_run or (args.atomic and bool(planned.conflicts))
    if is_preview:
        merged = merge.preview(review, planned)
    else:
        with show_progress("merging") as report_progress:
            merged = merge.apply_plan(
                review, planned, context.store, notify, is_atomic=args.atomic, report_progress=report_progress
            )
    if args.atomic and planned.conflicts and not args.dry_run:
        merged = replace(merged, applied=())
    output.print_merge(merged, review, is_dry=args.dry_run, as_json=args.json)
    is_failed = bool(merged.conflicts or (args.all and has_rest) or ((args.take or args.patch) and not merged.applied))
    if not review.is_already_applied():
        return frontend.ReviewEnd(FAILURE if is_failed else SUCCESS)
    notify(frontend.ALREADY_APPLIED)
    return frontend.ReviewEnd(SUCCESS, Ending.KEEP if args.dry_run else Ending.DISCARD)


def _review_all(args: argparse.Namespace, context: CommandContext, options: RunOptions) -> int:
    if selection_flags.selects_changes(args) or args.session:
        raise UsageError(message="--every-session takes no session and no selection", hint="agent-dev merge --every-session")
    from agent_dev.cli.post_run_review import review_all  # only for a review

    return review_all(context, options, is_plain=args.plain)


def _salvage(one: ListedSession, target: str) -> int:
    from agent_dev.merge.salvage import salvage  # rare

    session = store.lock_session(one.session)
    try:
        result = salvage(session, target)
    finally:
        store.unlock_session(session)
    output.print_export(result.copied, target, result.deleted, is_patch=False)
    for problem in result.problems:
        warn(visible(problem))
    return FAILURE if result.problems else SUCCESS


def _plan(review: Review, request: select_by_options.SelectionRequest) -> tuple[MergePlan, bool]:
    """Return the plan, and whether it leaves out a requested change that cannot be merged."""
    selected, requested = select_by_options.select_requested(review, request)
    review.release_derived()
    planned = merge.plan_selection(review, selected, requested)
    return planned, any(one.key in requested for one in planned.skipped)


def _export(review: Review, planned: MergePlan, target: str) -> int:
    from agent_dev.merge import export  # rare

    roots = review.record["roots"]
    gone = export.export(review, planned, target, lambda key: patch_path(key, roots))
    is_patch = target.endswith(export.SUFFIXES)
    count = len(fold_changes(merge.preview(review, planned).applied, review.changes.renames))
    output.print_export(count, target, [display_path(key, roots) for key in gone], is_patch=is_patch)
    return FAILURE if planned.conflicts else SUCCESS
