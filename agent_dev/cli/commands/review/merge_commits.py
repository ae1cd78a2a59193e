"""Import commits for `merge --commits`."""

import argparse

from agent_dev.cli.commands.open_session import find_with_commits
from agent_dev.cli.commands.review.open_review import open_locked
from agent_dev.cli.console import notify
from agent_dev.cli.render import commits as output
from agent_dev.cli.screen import frontend
from agent_dev.commits.import_result import ImportResult, describe_failure
from agent_dev.commits.importer import import_commits as run_import
from agent_dev.commits.targets import ImportOptions
from agent_dev.errors import FAILURE, SUCCESS, CannotImport
from agent_dev.git.merge_tree_conflict import ConflictResolutions
from agent_dev.merge.merge import Notify
from agent_dev.quick_dataclass import replace
from agent_dev.retention import automatic
from agent_dev.session.sessions import CommandContext


def import_commits(args: argparse.Namespace, context: CommandContext) -> int:
    """Import commits and print the result."""
    request = ImportOptions(tuple(args.commits), args.name, args.squash, args.onto_current, args.message)
    request = replace(request, is_dry_run=args.dry_run, include_risky=args.include_risky)
    with open_locked(find_with_commits(args.session, context), context) as review:

        def retry(answers: ConflictResolutions, notice: Notify) -> ImportResult:
            next_request = replace(request, resolutions=answers)
            return run_import(review, next_request, context.store, notice, with_trailers=context.profile.commit_trailers)

        try:
            result = retry({}, notify)
        except CannotImport as error:
            if not args.json:
                raise
            result = describe_failure(error, review.session.id)
        if result.resolvable and not (args.dry_run or args.json) and frontend.has_screen(context.environ):
            return frontend.resolve_conflicts(review, context, result, retry)
    if not args.dry_run:
        automatic.clean_after_merge(context)
    output.print_import(result, is_dry=args.dry_run, as_json=args.json)
    return FAILURE if result.conflicts or result.reason or result.not_updated or result.refused_lfs else SUCCESS
