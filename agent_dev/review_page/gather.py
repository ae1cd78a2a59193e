"""Gather the content of a review page from a review and from a session's commits."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from agent_dev.commits.commit_patch import read_patch
from agent_dev.commits.report import CommitReport
from agent_dev.diff.binary import is_binary
from agent_dev.diff.merge3 import LineMerge
from agent_dev.diff.patch_parser import FilePatch, InvalidPatch, parse_patch
from agent_dev.diff.review_note import ReviewNote
from agent_dev.errors import CommandFailed
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import ParsedCommit, TreeChange
from agent_dev.merge import saved_selection
from agent_dev.merge.review import MAX_DIFF_SIZE, Review
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Resolution, Risk
from agent_dev.overlay.labels import (
    describe_block,
    display_path,
    format_count,
    format_size,
    kind_name,
    origin_key,
    outcome_of,
    path_text,
    type_name,
)
from agent_dev.quick_dataclass import dataclass
from agent_dev.review_page.content import (
    ChangeSection,
    CommitFile,
    CommitList,
    CommitSection,
    Diff,
    ReviewPage,
    RiskGroup,
    ThreeWayView,
)
from agent_dev.review_page.side_by_side import compare_texts, convert_patch
from agent_dev.review_page.three_way import cells, compare_versions
from agent_dev.session.origin import describe_origin, typed_words
from agent_dev.session.sessions import ListedSession

_MAX_CHANGES = 2000
_MAX_COMMITS = 200
_MAX_COMMIT_FILES = 500
_MAX_RISK_PATHS = 20  # shown per risk
_MAX_FILE_SIZE = 2 << 20  # bytes on either side; a larger file is not compared
_MAX_ROWS = 3000  # per file
_ROW_COST = 150  # bytes of HTML around the lines of a row
_MAX_HASHED = 1 << 30  # bytes of one file
_CHUNK = 1 << 20
_NO_SPACE = "not shown: the diffs before it fill this page"


@dataclass(slots=True)
class _PageBudget:
    """The number of bytes that diffs may still take on the page."""

    left: int

    @property
    def rows(self) -> int:
        """The number of rows that the next diff may have."""
        return max(0, min(_MAX_ROWS, self.left // _ROW_COST))

    def limit(self, make: Callable[[int], Diff]) -> Diff:
        """Return the diff that `make` creates for a maximum number of rows, if it fits."""
        if not self.rows:
            return Diff(reason=_NO_SPACE)
        diff = make(self.rows)
        rows = [row for hunk in diff.hunks for row in hunk.rows]
        self._spend(len(rows), (line for row in rows for line in (row.old, row.new)))
        return diff

    def limit_view(self, merged: LineMerge) -> ThreeWayView:
        """Return the three-way view of a merge with as many rows as fit."""
        view = compare_versions(merged, self.rows)
        rows = [row for hunk in view.hunks for row in hunk.rows]
        self._spend(len(rows), (line for row in rows for _, line in cells(row)))
        return view

    def _spend(self, rows: int, lines: Iterable[bytes | None]) -> None:
        self.left -= sum(len(line or b"") for line in lines) + _ROW_COST * rows


_DIFF_BYTES, _COMMIT_BYTES = 8 << 20, 6 << 20


def create_page(
    one: ListedSession, review: Review, changes: ChangeSet, commits: CommitList, problems: Sequence[str]
) -> ReviewPage:
    """Return the page of a session. `changes`: folded and assessed; `problems`: other than those of the changes."""
    roots = review.record["roots"]
    ordered = sorted(changes.changes, key=_rank)
    shown = ordered[:_MAX_CHANGES]
    facts = [("session", one.session.id), ("state", one.state), ("command", " ".join(typed_words(review.record)))]
    facts += [("directory", root) for root in roots]
    facts += [("imported", origin)] if (origin := describe_origin(review.record)) else []
    return ReviewPage(
        one.name,
        tuple(facts),
        _totals(changes.changes, commits),
        (*changes.problems, *problems),
        changes.notes,
        _group_risks(ordered, roots),
        _change_sections(review, shown, _PageBudget(_DIFF_BYTES)),
        len(ordered),
        len(shown),
        commits,
    )


def _rank(change: Change) -> int:
    """Return the rank of a change: needs review, other, ignored by git."""
    if _risks(change) or not change.is_clean:
        return 0
    return 2 if change.is_ignored else 1


def _risks(change: Change) -> tuple[Risk, ...]:
    """Return the risks to show, including that a change could not be assessed."""
    return change.known_risks if change.is_ignored else change.risks


def _totals(changes: Sequence[Change], commits: CommitList) -> tuple[str, ...]:
    kinds = Counter(change.kind for change in changes)
    ignored = sum(change.is_ignored for change in changes)
    inserted = sum(change.insertions or 0 for change in changes)
    deleted = sum(change.deletions or 0 for change in changes)
    blocked = sum(not change.is_clean for change in changes)
    return (
        format_count(len(changes), "change"),
        *(f"{kinds[kind]:,} {kind}" for kind in ChangeKind if kinds[kind]),
        *([f"{ignored:,} ignored by git"] if ignored else []),
        f"+{inserted:,} -{deleted:,}",
        f"{sum(bool(_risks(change)) for change in changes):,} risky",
        format_count(blocked, "conflict"),
        format_count(commits.total, "commit"),
    )


def _group_risks(ordered: Sequence[Change], roots: Sequence[str]) -> tuple[RiskGroup, ...]:
    found: dict[Risk, list[tuple[int, str]]] = {}
    for number, change in enumerate(ordered, 1):
        for risk in _risks(change):
            found.setdefault(risk, []).append((number if number <= _MAX_CHANGES else 0, display_path(change.key, roots)))
    groups = (RiskGroup(risk, tuple(rows[:_MAX_RISK_PATHS]), max(0, len(rows) - _MAX_RISK_PATHS)) for risk, rows in found.items())
    return tuple(sorted(groups, key=lambda group: group.risk.rule))


# Changes


def _change_sections(review: Review, changes: Iterable[Change], budget: _PageBudget) -> Iterator[ChangeSection]:
    roots, notes = review.record["roots"], saved_selection.load_notes(review.session.folder)
    for number, change in enumerate(changes, 1):
        view = _three_way(review, change, budget)
        diff, hashes = (Diff(), ()) if view.hunks or view.omitted else _diff(review, change, budget)
        yield ChangeSection(
            number,
            kind_name(change),
            display_path(change.key, roots),
            display_path(origin, roots) if (origin := origin_key(change)) else "",
            change.insertions,
            change.deletions,
            tuple(_labels(change)),
            _risks(change),
            "" if change.is_clean else describe_block(change),
            (*_notes(change, notes), *_facts(change), *hashes),
            diff,
            view,
        )


def _notes(change: Change, notes: Sequence[ReviewNote]) -> Iterator[tuple[str, str]]:
    """Yield the user's notes to the agent about a change."""
    for note in notes:
        if (note.root, note.path) == (change.key.root, change.key.path):
            line = f", {'old ' * note.is_old}line {note.line}" if note.line else ""
            yield f"note to the agent{line}", note.text


def _three_way(review: Review, change: Change, budget: _PageBudget) -> ThreeWayView:
    """Return the three versions of a change in conflict; None if it has no lines to compare."""
    found = review.reconciliations.get(change.key)
    if not change.conflict or found is None or found.merged is None:
        return ThreeWayView()
    return budget.limit_view(found.merged)


def _labels(change: Change) -> Iterator[str]:
    before, after = change.before, change.after
    if change.type is not FileType.FILE:
        yield type_name(change.type)
    if before is not None and after is not None and before.type is not after.type:
        yield f"was a {type_name(before.type)}"
    elif before is not None and after is not None and before.mode != after.mode and after.type is not FileType.SYMLINK:
        yield f"mode {before.mode:04o} → {after.mode:04o}"
    if change.is_ignored:
        yield "ignored by git"
    if change.is_combined:
        yield str(outcome_of(change, is_agents=change.resolution is Resolution.AGENT))


def _facts(change: Change) -> Iterator[tuple[str, str]]:
    yield "before", _describe_entry(change.before)
    if change.conflict:
        yield "yours", _describe_entry(change.yours)
    yield "after", _describe_entry(change.after)
    before, after = (entry.attributes if entry is not None else () for entry in (change.before, change.after))
    if before != after:
        differing = sorted({name for name, _ in {*before} ^ {*after}})
        yield "changed attributes", ", ".join(differing)


def _describe_entry(entry: Entry | None) -> str:
    if entry is None:
        return "does not exist"
    if entry.type is FileType.SYMLINK:
        return f"symlink to {path_text(entry.target)}"
    size = f", {format_size(entry.size)}" if entry.type is FileType.FILE else ""
    return f"{type_name(entry.type)}{size}, mode {entry.mode:04o}"


def _diff(review: Review, change: Change, budget: _PageBudget) -> tuple[Diff, tuple[tuple[str, str], ...]]:
    """Return the diff of a change, and hashes of contents that have no lines to show."""
    sides = [entry if entry is not None and entry.type is FileType.FILE else None for entry in (change.before, change.after)]
    if change.kind is ChangeKind.METADATA or not any(sides):
        return Diff(), ()
    try:
        contents = review.content(change.key)
        before, after = (data if entry is not None else b"" for entry, data in zip(sides, contents, strict=True))
        if reason := _reason_without_lines(before, after):
            return Diff(reason=reason), _hashes(review, change, sides, (before, after))
    except OSError as error:
        return Diff(reason=f"not shown: it cannot be read: {error.strerror}"), ()
    return budget.limit(lambda rows: compare_texts(before or b"", after or b"", rows)), ()


def _reason_without_lines(before: bytes | None, after: bytes | None) -> str:
    """Return why the lines of two contents are not shown, "" if they are."""
    if before is None or after is None:
        return "not shown: its content is too large or unknown"
    if is_binary(before) or is_binary(after):
        return "binary file"
    if max(len(before), len(after)) > _MAX_FILE_SIZE:
        return "not shown: the file is too large"
    return "the content is the same" if before == after else ""


def _hashes(
    review: Review, change: Change, sides: Sequence[Entry | None], contents: Sequence[bytes | None]
) -> tuple[tuple[str, str], ...]:
    found = []
    for name, entry, data in zip(("before", "after"), sides, contents, strict=True):
        if entry is not None:
            digest = hashlib.sha256(data).hexdigest() if data is not None else ""
            if data is None and name == "after" and entry.size > MAX_DIFF_SIZE:
                digest = _hash_file(review, change.key, entry.size)
            found.append((f"SHA-256 {name}", digest or "not computed"))
    return tuple(found)


def _hash_file(review: Review, key: Key, size: int) -> str:
    """Return the hash of a large file of the agent, "" if it is larger than `_MAX_HASHED`."""
    if size > _MAX_HASHED:
        return ""
    fd = review.upper_trees[key.root].open(key.path, os.O_RDONLY)
    try:
        seen, count = hashlib.sha256(), 0
        while (data := os.read(fd, _CHUNK)) and count <= _MAX_HASHED:
            seen.update(data)
            count += len(data)
        return seen.hexdigest() if count <= _MAX_HASHED else ""
    finally:
        os.close(fd)


# Commits


def list_commits(reports: Sequence[tuple[CommitReport, BareRepository]], notes: Iterable[str]) -> CommitList:
    """Return the commits of a session with their patches, by repository. `notes`: other changes of its git directories."""
    commits = [(commit, report, repo) for report, repo in reports for commit in report.changes.commits]
    budget, has_several = _PageBudget(_COMMIT_BYTES), len(reports) > 1
    sections = tuple(
        _commit_section(commit, report, repo, budget, has_several=has_several) for commit, report, repo in commits[:_MAX_COMMITS]
    )
    more = ("… and older commits",) if any(report.changes.is_truncated for report, _ in reports) else ()
    return CommitList(sections, (*more, *notes), len(commits))


def _commit_section(
    commit: ParsedCommit, report: CommitReport, repo: BareRepository, budget: _PageBudget, *, has_several: bool
) -> CommitSection:
    files, reason = _commit_files(commit, report, repo, budget)
    return CommitSection(
        commit.id,
        commit.subject,
        commit.message,
        commit.author,
        commit.committer,
        commit.parents,
        (*((f"in {path_text(os.fsencode(report.path))}",) if has_several else ()), *_commit_notes(commit, report)),
        files,
        reason,
    )


def _commit_notes(commit: ParsedCommit, report: CommitReport) -> Iterator[str]:
    if commit.signature:
        yield f"{commit.signature} signature, not verified"
    if commit.id in report.changes.imported_ids:
        yield "imported"
    if commit.id in report.changes.declined_ids:
        yield "declined"
    if commit.id in report.changes.remote_ids:
        yield "on a remote branch, too"
    for path in report.user_edits.get(commit.id, ()):
        yield f"includes your uncommitted edits of {path_text(path)}"
    for one in report.submodule_changes:
        if one.commit == commit.id:
            yield f"submodule {path_text(one.path)}: {one.old or 'nothing'} → {one.new or 'nothing'}"


def _commit_files(
    commit: ParsedCommit, report: CommitReport, repo: BareRepository, budget: _PageBudget
) -> tuple[tuple[CommitFile, ...], str]:
    """Return the files of a commit, and why there is no patch."""
    risks = report.risks.get(commit.id, {})
    known = {one.path: one for one in commit.changed_files}
    try:
        if budget.left <= 0:
            return _files_without_patch(commit, risks), _NO_SPACE
        patches = parse_patch(read_patch(repo, commit, report.rename_similarity, _MAX_FILE_SIZE))
    except (CommandFailed, InvalidPatch) as error:
        return _files_without_patch(commit, risks), f"no patch: {error.message}"
    more = len(patches) - _MAX_COMMIT_FILES
    reason = f"{format_count(more, 'more file')} not on this page" if more > 0 else ""
    return tuple(
        CommitFile(
            patch.path,
            patch.renamed_from,
            tuple(_patch_labels(patch)),
            tuple(dict.fromkeys((*risks.get(patch.path, ()), *risks.get(patch.renamed_from, ())))),
            _patch_diff(patch, known.get(patch.path), budget),
        )
        for patch in patches[:_MAX_COMMIT_FILES]
    ), reason


def _files_without_patch(commit: ParsedCommit, risks: Mapping[bytes, tuple[Risk, ...]]) -> tuple[CommitFile, ...]:
    files = commit.changed_files[:_MAX_COMMIT_FILES]
    return tuple(CommitFile(one.path, b"", (one.kind,), risks.get(one.path, ())) for one in files)


def _patch_labels(patch: FilePatch) -> Iterator[str]:
    if patch.is_new or patch.is_deleted:
        mode = patch.new_mode if patch.is_new else patch.old_mode
        yield f"{'added' if patch.is_new else 'deleted'}{f', mode {mode:06o}' if mode else ''}"
    elif patch.old_mode is not None and patch.new_mode is not None:
        yield f"mode {patch.old_mode:06o} → {patch.new_mode:06o}"
    if patch.renamed_from:
        yield "renamed"


def _patch_diff(patch: FilePatch, change: TreeChange | None, budget: _PageBudget) -> Diff:
    if patch.is_binary:
        ids = f", blob {change.old_oid} → {change.new_oid}" if change is not None else ""
        return Diff(reason=f"binary file{ids}")
    return budget.limit(lambda rows: convert_patch(patch.hunks, rows)) if patch.hunks else Diff()
