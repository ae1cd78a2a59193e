"""`merge --html`: write the review as a static page; nothing is merged."""

import argparse
import sys
from collections.abc import Iterable, Iterator

from agent_dev.cli.commands.review.open_review import open_unjudged
from agent_dev.cli.commands.review.session_commits import retry_if_running
from agent_dev.cli.render.commits import describe_other_changes, describe_uncommitted, repository_title
from agent_dev.cli.render.format import print_line
from agent_dev.commits.prefetch import start_queries
from agent_dev.commits.report import CommitReport, finish_report
from agent_dev.errors import SUCCESS, CommandFailed, UnreadableSession, UsageError
from agent_dev.merge.review import Review
from agent_dev.overlay.labels import format_count
from agent_dev.review_page import gather, html_page, output_file
from agent_dev.review_page.content import CommitList
from agent_dev.sanitize import visible
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext

_STDOUT = "-"
_OWN = ("html", "session")
_FLAGS = {"name": "--as"}  # flags that are not named like their attribute


def write_page(args: argparse.Namespace, context: CommandContext) -> int:
    """Write the page of a session to a file or to stdout. Raises UsageError for other flags."""
    _refuse_other_flags(args)
    one = sessions.find_session(context, args.session)
    with open_unjudged(one, context) as review:
        changes = review.assess_with_counts()
        review.release_derived()
        commits, problems = _read_commits(review, context)
        page = gather.create_page(one, review, changes, commits, problems)
        pieces = html_page.render_page(page)
        if args.html == _STDOUT:
            _print_pieces(pieces)
            return SUCCESS
        output_file.write_file(args.html, pieces, store.untrusted_paths(review.record))
    counts = f"{format_count(page.total, 'change')} and {format_count(commits.total, 'commit')}"
    print_line(f"page with {counts} written to {visible(args.html)}; nothing was merged")
    return SUCCESS


def _refuse_other_flags(args: argparse.Namespace) -> None:
    given = [name for name, value in vars(args).items() if name not in _OWN and value not in (None, "", False, [])]
    if not args.html:
        raise UsageError(message="--html needs a file", hint="agent-dev merge --html FILE (-: stdout)")
    if given:
        flag = _FLAGS.get(given[0], "--" + given[0].replace("_", "-"))
        raise UsageError(message=f"--html merges nothing and cannot be combined with {flag}", hint="agent-dev merge --html FILE")


def _read_commits(review: Review, context: CommandContext) -> tuple[CommitList, tuple[str, ...]]:
    """Return the commits and their problems: if git cannot read what the agent left, the page says so."""

    def read() -> CommitList:
        with start_queries(review.session, review.record, context.environ) as queries:
            reports = [finish_report(review, one) for one in queries]
            return gather.list_commits(
                [(report, one.repo) for report, one in zip(reports, queries, strict=True)], _describe_others(reports)
            )

    try:
        return retry_if_running(review, read), ()
    except (CommandFailed, UnreadableSession) as error:
        return CommitList(), (f"cannot read the session's commits: {error.message}",)


def _describe_others(reports: list[CommitReport]) -> Iterator[str]:
    for report in reports:
        yield from (f"repository {title}" for title in repository_title(report, reports))
        yield from (*describe_uncommitted(report), *describe_other_changes(report))


def _print_pieces(pieces: Iterable[str]) -> None:
    for piece in pieces:
        sys.stdout.buffer.write(piece.encode())
    sys.stdout.buffer.flush()
