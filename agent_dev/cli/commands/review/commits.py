"""The subcommand `commits`. It imports no modules for merging or diffs, so that it starts quickly."""

from contextlib import closing

from agent_dev.cli.commands.open_session import find_with_commits, locked_if_free
from agent_dev.cli.parser import make_session_parser
from agent_dev.commits.prefetch import start_queries
from agent_dev.config.options import RunOptions
from agent_dev.errors import SUCCESS, UsageError
from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.session import store
from agent_dev.session.sessions import CommandContext, ListedSession


def run(argv: list[str], context: CommandContext, _options: RunOptions) -> int:
    """Run the subcommand `commits`."""
    parser = make_session_parser("commits", "List the agent's commits, moved branches and tags, and stashes.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    text = "print the patch of each commit, or only of the one whose id starts with ID"
    parser.add_argument("--patch", nargs="?", const="", metavar="ID", help=text)
    text = "record that you do not want these commits (as for `merge --commits`; default: all that are not imported)"
    parser.add_argument("--decline", action="append", nargs="?", const="", metavar="ID", help=text)
    args = parser.parse_args(argv)
    if args.decline is not None and args.patch is not None:
        raise UsageError(message="--decline and --patch cannot be combined", hint="agent-dev commits --patch")
    named = find_with_commits(args.session, context)
    if args.patch is not None:
        return _print_patches(named, context, args.patch, as_json=args.json)
    if args.decline is not None:
        return _decline(named, context, args.decline, as_json=args.json)
    with locked_if_free(named) as session:
        if session is None:
            return _print_snapshot(named, context, as_json=args.json)
        with start_queries(session, store.read_record(session), context.environ) as queries:
            # Imported while git runs: opening the review and printing need far more modules than querying git.
            from agent_dev.cli.render import commits as output
            from agent_dev.commits.report import finish_report
            from agent_dev.merge.review import open_review

            with closing(open_review(session, context.environ, with_risks=False)) as review:
                output.print_commits([finish_report(review, one) for one in queries], session.id, as_json=args.json)
    return SUCCESS


def _decline(named: ListedSession, context: CommandContext, wanted: list[str], *, as_json: bool) -> int:
    """Decline commits and print them."""
    from agent_dev.cli.commands.review.open_review import open_locked
    from agent_dev.cli.console import notify
    from agent_dev.cli.render import commits as output
    from agent_dev.commits.decline import decline_commits

    with open_locked(named, context) as review:
        output.print_decline(decline_commits(review, wanted, context.store, notify), as_json=as_json)
    return SUCCESS


def _print_patches(named: ListedSession, context: CommandContext, wanted: str, *, as_json: bool) -> int:
    """Print the patches of commits, the newest first. Raises UsageError for an id that no commit of the session has."""
    from agent_dev.cli.render import commits as output
    from agent_dev.cli.render import pager
    from agent_dev.commits.commit_patch import read_patches
    from agent_dev.merge import running_session

    if as_json:
        raise UsageError(message="--patch prints no JSON", hint="agent-dev commits --patch, or agent-dev commits --json")

    def read() -> list[tuple[ParsedCommit, bytes]]:
        record = store.read_record(named.session)
        with start_queries(named.session, record, context.environ) as queries:
            return [found for one in queries for found in read_patches(one, wanted)]

    with locked_if_free(named) as session:
        found = read() if session is not None else running_session.retry_while_changing(named.session, read)
    if wanted and not found:
        raise UsageError(message=f"the session has no commit {wanted}", hint="agent-dev commits lists them")
    with pager.open_output(context.environ) as shown:
        for commit, patch in found:
            pager.write_patch(output.patch_header(commit) + patch, shown)
    return SUCCESS


def _print_snapshot(named: ListedSession, context: CommandContext, *, as_json: bool) -> int:
    """Print the commits of a session that is running or open elsewhere; more may follow."""
    from agent_dev.cli.render import commits as output
    from agent_dev.commits.report import CommitReport, create_reports
    from agent_dev.merge import running_session  # deferred as above

    def read() -> tuple[CommitReport, ...]:
        with running_session.open_during(named.session, context.environ) as review:
            return create_reports(review)

    reports = running_session.retry_while_changing(named.session, read)
    output.print_commits(reports, named.session.id, as_json=as_json, is_running=named.state == store.RUNNING)
    return SUCCESS
