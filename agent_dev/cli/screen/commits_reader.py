"""The commits of a session for the review screen: list, describe, import."""

from collections.abc import Mapping, Sequence

from agent_dev.agent_git import commits, current_refs, refs
from agent_dev.agent_git.changes import HEADS, parse_head_branch
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.cli.render import commits as output
from agent_dev.cli.screen.conflict_source import ImportFunction
from agent_dev.commits import commit_patch, gitlinks, report, uncommitted
from agent_dev.commits.decline import decline_commits
from agent_dev.commits.gitlinks import SubmoduleChange
from agent_dev.commits.import_result import ImportResult
from agent_dev.commits.importer import import_commits
from agent_dev.commits.prefetch import RunningQueries, start_queries
from agent_dev.commits.risks import find_commit_risks
from agent_dev.commits.targets import ImportOptions
from agent_dev.errors import FAILURE, SUCCESS, AgentDevError, CommandFailed
from agent_dev.git.formats.commit_format import Commit, ParsedCommit
from agent_dev.git.merge_tree_conflict import ConflictResolutions
from agent_dev.merge.merge import Notify
from agent_dev.merge.review import Review
from agent_dev.overlay.labels import SIGNS, format_count
from agent_dev.quick_dataclass import replace
from agent_dev.risk.commit_risks import SUBMODULE_MOVED
from agent_dev.sanitize import visible
from agent_dev.session import store
from tui.model.tabs import ImportMode, RiskyPath, TabEntry
from tui.source import OperationResult

_SHORT = 10
_MAX_FILES = 200  # shown per commit
_MAX_PATCHES, _MAX_LINES = 50, 2000  # shown
_LARGEST_PATCH = 4 << 20  # bytes


def list_commits(review: Review) -> tuple[TabEntry, ...]:
    """Return the commits by id and subject, by repository. It is quick, for the screen opens with them."""
    sources = list_repositories(review.session, review.record)
    try:
        found = [(source, commits.list_commits(source, review.environ, without_imported=True)) for source in sources]
    except AgentDevError as error:
        return (TabEntry("cannot read the commits", (error.message,)),)
    entries: list[TabEntry] = []
    for source, made in found:
        links = gitlinks.find_updated_submodules(source, [one.id for one in made], review.environ)
        entries += [TabEntry(f"{visible(source.path)}:")] if made and len(found) > 1 else []
        entries += [_entry(one, (one.id, one.subject), _submodule_risks(links, one.id), _decision(one)) for one in made]
    return tuple(entries)


def describe_commits(review: Review) -> tuple[TabEntry, ...]:
    """Return the commits with all details, and the other changes of the session's git directories, by repository."""
    try:
        with start_queries(review.session, review.record, review.environ) as queries:
            found = [(one, report.finish_report(review, one)) for one in queries]
            parts = [(commit_report, _describe_repository(review, one, commit_report)) for one, commit_report in found]
    except AgentDevError as error:
        return (TabEntry("cannot read the commits", (error.message,)),)
    reports = [commit_report for commit_report, _ in parts]
    titles = ([TabEntry(f"{title}:") for title in output.repository_title(commit_report, reports)] for commit_report in reports)
    return tuple(entry for title, (_, entries) in zip(titles, parts, strict=True) for entry in (*title, *entries))


def _describe_repository(review: Review, queries: RunningQueries, commit_report: report.CommitReport) -> tuple[TabEntry, ...]:
    patches, loose = _read_patches(queries, commit_report.changes.commits), _describe_uncommitted(review, queries, commit_report)
    rows = []
    for one in commit_report.changes.commits:
        details = [one.id, *output.describe_commit(one, commit_report, _MAX_FILES)]
        details[2:2] = [
            "",
            *(visible(line) for line in one.message.decode("utf-8", "surrogateescape").rstrip("\n").split("\n")),
            "",
        ]
        rows.append(
            _entry(
                one,
                (*details, *output.describe_submodules(commit_report.submodule_changes, one.id), *patches.get(one.id, ())),
                _risky_files(review, commit_report, one),
                output.decision(one.id, commit_report.changes),
            )
        )
    return (*rows, *loose, *(TabEntry(line) for line in output.describe_other_changes(commit_report)))


def _describe_uncommitted(review: Review, queries: RunningQueries, commit_report: report.CommitReport) -> tuple[TabEntry, ...]:
    """Return one entry for all uncommitted files, with a list and their patches against the last commit."""
    paths = commit_report.uncommitted or ()
    if not (titles := [*output.describe_uncommitted(commit_report)]):
        return ()
    details = ["not in a commit: apply them from the Changes tab (press 1)", ""]
    try:
        files = [*uncommitted.read_uncommitted(review, queries, paths[:_MAX_FILES])]
    except CommandFailed:
        files = []  # the agent deleted or damaged objects
        details += [visible(path) for path in paths[:_MAX_FILES]]
    details += [f"{SIGNS[one.kind]} {visible(one.path)}{'' if one.is_change else ' (as in your tree)'}" for one in files]
    details += [f"… {format_count(len(paths) - _MAX_FILES, 'more file')}"] if len(paths) > _MAX_FILES else []
    lines = [line for one in files for line in one.patch.removesuffix(b"\n").split(b"\n")]
    details += ["", *(visible(line, tab="    ") for line in lines[:_MAX_LINES])]
    details += [f"… {len(lines) - _MAX_LINES:,} more lines in the Changes tab"] if len(lines) > _MAX_LINES else []
    return tuple(TabEntry(title, tuple(details)) for title in titles)


def _read_patches(queries: RunningQueries, made: Sequence[ParsedCommit]) -> dict[str, tuple[str, ...]]:
    """Return the lines of the patches of the newest commits, as far as they are not too large to show."""
    found = {}
    for one in made[:_MAX_PATCHES]:
        hint = f"agent-dev commits --patch {one.id[:_SHORT]}"
        try:
            lines = (
                commit_patch.read_patch(queries.repo, one, queries.rename_similarity, _LARGEST_PATCH)
                .removesuffix(b"\n")
                .split(b"\n")
            )
        except CommandFailed:
            lines = [f"its patch is too large or unreadable: {hint}".encode()]
        more = [f"… {len(lines) - _MAX_LINES:,} more lines: {hint}"] if len(lines) > _MAX_LINES else []
        found[one.id] = ("", *(visible(line, tab="    ") for line in lines[:_MAX_LINES]), *more)
    return found


def _decision(one: Commit) -> str:
    if one.is_imported:
        return output.IMPORTED
    return output.DECLINED if one.is_declined else ""


def _entry(one: Commit | ParsedCommit, details: tuple[str, ...], risky: tuple[RiskyPath, ...], decided: str) -> TabEntry:
    """Return the entry of a commit; one that was imported or declined cannot be selected and needs no review."""
    title = f"{one.id[:_SHORT]} {one.subject}"
    if decided:
        return TabEntry(f"{title} ({decided})", details)
    return TabEntry(title, details, bool(risky), id=one.id, risky_paths=risky)


def _risky_files(review: Review, commit_report: report.CommitReport, one: ParsedCommit) -> tuple[RiskyPath, ...]:
    """Return the risky files of a commit, by its own risks and the session's where the contents are equal."""
    links = {link.path: link.details for link in _submodule_risks(commit_report.submodule_changes, one.id)}
    judged, combined_risks = commit_report.risks.get(one.id, {}), commit_report.worktree_only.get(one.id, frozenset())
    return tuple(
        RiskyPath(path, risks, links.get(path, ()))
        for path, risks in find_commit_risks(review, commit_report.root, one, judged, combined_risks)
    )


def _submodule_risks(links: Sequence[SubmoduleChange], commit: str) -> tuple[RiskyPath, ...]:
    own = (one for one in links if one.commit == commit)
    return tuple(RiskyPath(one.path, (SUBMODULE_MOVED,), tuple(output.describe_submodules((one,), commit))) for one in own)


def decline(review: Review, session_store: store.Store, ids: Sequence[str]) -> OperationResult:
    """Decline commits; return the messages for the user."""
    messages: list[str] = []
    try:
        done = decline_commits(review, ids, session_store, messages.append)
    except AgentDevError as error:
        return OperationResult(
            (*messages, error.message, *([f"hint: {error.hint}"] if error.hint else [])), FAILURE, may_have_changed=False
        )
    return OperationResult((*messages, *output.describe_decline(done)), SUCCESS, may_have_changed=bool(done.merge))


def make_importer(
    review: Review, session_store: store.Store, ids: Sequence[str], target: tuple[ImportMode, str], *, with_trailers: bool
) -> ImportFunction:
    """Return a function that imports commits (newest first) by a strategy, given answers to conflicts.

    `target`: the strategy, and the name of the new branch.
    """
    strategy, name = target
    is_onto = strategy is not ImportMode.NEW_BRANCH
    sources = list_repositories(review.session, review.record)
    arguments = {source.root: args for source in sources if (args := _commit_arguments(source, ids, review.environ))}

    def retry(answers: ConflictResolutions, notice: Notify) -> ImportResult:
        request = ImportOptions(
            ("",), "" if is_onto else name, squash=strategy is ImportMode.SQUASHED, onto_current=is_onto, resolutions=answers
        )
        request = replace(request, args_by_root=arguments, include_risky=True)  # the user confirmed each on the screen
        return import_commits(review, request, session_store, notice, with_trailers=with_trailers)

    return retry


def _commit_arguments(source: AgentRepository, selected: Sequence[str], environ: dict[str, str]) -> tuple[str, ...]:
    """Return the arguments of --commits for one repository: "" if the commits are all those of the start branch, else ids."""
    before, after = refs.read_initial_refs(source), current_refs.read_refs(source, environ)
    made = commits.list_commits(source, environ)
    known = {one.id for one in made}
    ids = [one for one in selected if one in known]
    if not ids:
        return ()
    start, moved = parse_head_branch(before.get("HEAD", "")), _moved_branches(before, after)
    is_everything = len(ids) == len(made) and moved == [start]
    if is_everything or (start in moved and _is_branch(source, environ, ids, (after[start], before.get(start, "")))):
        return ("",)
    return tuple(reversed(ids))


def _is_branch(source: AgentRepository, environ: dict[str, str], ids: Sequence[str], ends: tuple[str, str]) -> bool:
    """Return whether the commits are all new ones of a branch, which may contain merges: those cannot be cherry-picked."""
    tip, before = ends
    with commits.open_agent_objects(source, environ) as skeleton:
        return commits.list_reachable(skeleton, (tip,), (before,) if before else (), len(ids) + 1) == frozenset(ids)


def _moved_branches(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [name for name in after if name.startswith(HEADS) and before.get(name) != after[name]]
