"""Report of a session's commits, uncommitted changes, and commits that contain edits of the user."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from agent_dev.agent_git.changes import GitChanges
from agent_dev.agent_git.read_unlisted import find_in_reflogs, find_in_submodules
from agent_dev.agent_git.unlisted_work import UnlistedWork
from agent_dev.commits.assess import CommitRules
from agent_dev.commits.gitlinks import SubmoduleChange, find_submodule_changes
from agent_dev.commits.prefetch import RunningQueries, start_queries
from agent_dev.errors import CommandFailed
from agent_dev.fs.dir_tree import Tree
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git import blobs, commit_reader
from agent_dev.git.bare import BareRepository
from agent_dev.git.blobs import BlobBatches, read_blobs
from agent_dev.git.formats import lfs_pointer
from agent_dev.git.formats.commit_format import ParsedCommit, TreeChange, iterate_records
from agent_dev.git.object_id import blob_id
from agent_dev.merge import escaping_links
from agent_dev.merge.review import MAX_DIFF_SIZE, Review
from agent_dev.overlay.changes import Change, Risk
from agent_dev.quick_dataclass import dataclass, field, replace
from agent_dev.risk import load as risk_load
from agent_dev.risk.commit_risks import inspected_blobs, link_targets
from agent_dev.risk.content import MAX_INSPECTED_SIZE
from agent_dev.risk.risk_rules import LeavesRoot, RiskRule
from agent_dev.session import store

_MAX_ARGUMENT_SIZE = 100_000  # bytes; limit for paths on a command line
MAX_RISK_BYTES = 64 << 20  # bytes of changed files that risk rules read
_MAX_FIRST_READ = 8 << 20  # bytes that are read before the sizes are known
GITLINK, SYMLINK = 0o160000, 0o120000
TreeBlob = tuple[int, str] | None  # a tree entry's mode and id


@dataclass(frozen=True, slots=True)
class CommitReport:
    """The report on one repository. `root`: the number of its root.

    `uncommitted`: paths where the agent's work tree differs from its last commit, None if unknown.
    `user_edits`: by commit, paths with edits uncommitted at the session's start. `submodule_changes`: updated submodules.
    `risks`: by commit and path, reasons for a review. `worktree_only`: by commit, paths whose contents only the work tree has.
    `renames`: by commit, the old paths of renamed files by their new ones, by git's detection with `rename_similarity`.
    `unlisted`: work in its submodules and reflogs. `session`: the name, for commands.
    """

    changes: GitChanges
    root: int = 0
    path: str = ""  # of its work tree
    uncommitted: tuple[bytes, ...] | None = None
    user_edits: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    submodule_changes: tuple[SubmoduleChange, ...] = ()
    risks: Mapping[str, Mapping[bytes, tuple[Risk, ...]]] = field(default_factory=dict)
    worktree_only: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    renames: Mapping[str, Mapping[bytes, bytes]] = field(default_factory=dict)
    rename_similarity: int = store.DEFAULT_SIMILARITY
    unlisted: tuple[UnlistedWork, ...] = ()
    session: str = ""


def create_reports(review: Review) -> tuple[CommitReport, ...]:
    """Read a session's git dirs and work trees. Raises CommandFailed if git cannot read what the agent left."""
    with start_queries(review.session, review.record, review.environ) as queries:
        return tuple(finish_report(review, one) for one in queries)


def finish_report(review: Review, queries: RunningQueries) -> CommitReport:
    """Return the report on one repository, from queries that run already."""
    source = queries.source
    git_changes, repo, tree = queries.finish_read(), queries.repo, OverlayView(review, source.root)
    unlisted = (*find_in_reflogs(source, review.environ), *find_in_submodules(source, review.environ))
    name = str(review.record["name"] or review.session.id)
    report = CommitReport(git_changes, source.root, source.path, unlisted=unlisted, session=name)
    with _start_read(repo, inspected_blobs(git_changes.commits)) as finish_texts:
        uncommitted, at_head = _compare_with_head(tree, queries, git_changes.commits)
        if not (review.changes.changes or git_changes.commits or queries.start_commit != queries.head_commit):
            return replace(report, uncommitted=())
        links = find_submodule_changes(source, git_changes.commits, review.environ)
        rules = risk_load.load_risk_rules(review.environ)
        review.lower_snapshot.release_index()
        texts = finish_texts()
    del finish_texts  # it has the ids of all blobs, 20 MB for a commit of 100,000 files
    leaves = escaping_links.checker_for_links(link_targets(git_changes.commits, texts), review.real_trees[source.root])
    renames = commit_reader.find_renames(repo, git_changes.commits, queries.rename_similarity)
    risks = commit_rules(repo, rules, leaves, queries.start_commit).assess(repo, git_changes.commits, texts, renames)
    worktree_only = {commit.id: _worktree_only(commit, at_head, texts) for commit in git_changes.commits}
    del texts  # 20 MB for a commit of 100,000 files
    return replace(
        report,
        uncommitted=uncommitted,
        user_edits=_find_user_edits(tree, repo, git_changes, queries.start_commit),
        submodule_changes=links,
        risks=risks,
        worktree_only=worktree_only,
        renames=renames,
        rename_similarity=queries.rename_similarity,
    )


def _compare_with_head(
    tree: "OverlayView", queries: RunningQueries, commits: tuple[ParsedCommit, ...]
) -> tuple[tuple[bytes, ...] | None, dict[bytes, str] | None]:
    """Return the paths that differ from the last commit, and the ids that they have there; None if they are unknown."""
    try:
        moves = {file.path: file for file in _files_of_only_commit(queries, commits) or queries.finish_diff()}
        uncommitted = find_uncommitted(tree, queries, moves)
        return uncommitted, {path: moves[path].new_oid for path in uncommitted if path in moves}
    except CommandFailed:
        return None, None  # the agent deleted or damaged objects; its commits are still reported


def _files_of_only_commit(queries: RunningQueries, commits: tuple[ParsedCommit, ...]) -> tuple[TreeChange, ...]:
    """Return what a session's only commit changed, which need not be compared again; nothing for other commits."""
    match commits:
        case (only,) if (only.id, only.parents) == (queries.head_commit, (queries.start_commit,)):
            return only.changed_files
        case _:
            return ()


def commit_rules(repo: BareRepository, rules: tuple[RiskRule, ...], leaves: LeavesRoot, start: str) -> CommitRules:
    """Return the rules for commits of a session that started at the commit `start` ("": none)."""
    return CommitRules(
        rules,
        leaves,
        lambda pairs: read_risk_blobs(repo, pairs),
        lambda paths: list_tree(repo, start, paths) if start else {},
    )


def _worktree_only(commit: ParsedCommit, at_head: Mapping[bytes, str] | None, texts: Mapping[str, bytes]) -> frozenset[bytes]:
    """Return the paths of a commit whose contents only the work tree has.

    `at_head`: the ids in the last commit of paths whose files differ, because of a git filter or a later edit; None if unknown.
    Commits hold only pointers to LFS contents.
    """
    return frozenset(
        one.path
        for one in commit.changed_files
        if at_head is None
        or at_head.get(one.path) == one.new_oid
        or lfs_pointer.parse_pointer(texts.get(one.new_oid, b"")) is not None
    )


class OverlayView:
    """The work tree of a root as the agent saw it: its own files over the root's."""

    def __init__(self, review: Review, root: int) -> None:
        self.review, self.root = review, root
        self.base = review.lower_snapshot.entries(root)

    def change_at(self, path: bytes) -> Change | None:
        """Return the session's change at a path."""
        return self.review.changes.by_key().get(Key(self.root, path))

    def read_current(self, path: bytes) -> tuple[Entry | None, bytes | None]:
        """Return the entry at a path, and the bytes of a file or link if known."""
        change, upper = self.change_at(path), self.review.upper_trees[self.root]
        entry = change.after if change is not None else upper.entry_at(path)
        if entry is not None:
            return (None, None) if entry.type is FileType.DEVICE else (entry, self._read(upper, path, entry))
        return (None, None) if change is not None else self.read_initial(path)

    def read_initial(self, path: bytes) -> tuple[Entry | None, bytes | None]:
        """Return the entry and bytes at a path when the session started."""
        entry, real = self.base.get(path), self.review.real_trees[self.root]
        if entry is None:
            return None, None
        now = real.entry_at(path)
        if now is not None and now.identity == entry.identity:
            return entry, self._read(real, path, entry)
        if entry.type is FileType.SYMLINK:
            return entry, entry.target
        return entry, self.review.lower_snapshot.content(self.root, path)

    @staticmethod
    def _read(tree: Tree, path: bytes, entry: Entry) -> bytes | None:
        if entry.type is FileType.SYMLINK:
            return entry.target
        try:
            return tree.read(path, MAX_DIFF_SIZE) if entry.type is FileType.FILE else None
        except OSError:
            return None

    def matches(self, path: bytes, expected: TreeBlob, *, is_sha256: bool) -> bool:
        """Return whether the tree entry `expected` matches the work tree, as far as known; line endings are ignored."""
        entry, data = self.read_current(path)
        if entry is None or entry.type is FileType.DIRECTORY:
            return expected is None
        return expected is not None and is_same_blob(entry, data, expected, is_sha256=is_sha256)


def is_same_blob(entry: Entry, data: bytes | None, expected: tuple[int, str], *, is_sha256: bool) -> bool:
    """Return whether a file or link matches a tree entry; unknown bytes count as equal."""
    mode, oid = expected
    if mode != git_mode(entry):
        return False
    if data is None:
        return True
    return _is_blob(data, oid, is_sha256=is_sha256)


def git_mode(entry: Entry) -> int:
    """Return the mode of a file or link in a git tree."""
    if entry.type is FileType.SYMLINK:
        return SYMLINK
    return 0o100755 if entry.mode & 0o100 else 0o100644


def find_uncommitted(tree: OverlayView, queries: RunningQueries, moved: Mapping[bytes, TreeChange]) -> tuple[bytes, ...]:
    """Return the paths where the work tree differs from its last commit. `moved`: the files that the commits changed."""
    repo, end = queries.repo, queries.head_commit

    def is_different(path: bytes, side: TreeBlob) -> bool:
        return (side is None or side[0] != GITLINK) and not tree.matches(path, side, is_sha256=repo.is_sha256)

    found = [path for path, file in moved.items() if is_different(path, (file.new_mode, file.new_oid) if file.new_mode else None)]
    own = (change for change in tree.review.changes.changes if change.key.root == tree.root and not change.is_ignored)
    others = {change.key.path for change in own if change.key.path not in moved}
    for path, side in iterate_tree(repo, end, others) if others and end else ():
        if path in others:
            others.remove(path)
            if is_different(path, side):
                found.append(path)
    found += (path for path in others if is_different(path, None))
    return tuple(sorted(found))


def list_tree(repo: BareRepository, commit: str, paths: Collection[bytes]) -> dict[bytes, TreeBlob]:
    """Return which of the paths are files of a commit."""
    wanted = frozenset(paths)
    return {path: side for path, side in iterate_tree(repo, commit, paths) if path in wanted}


def iterate_tree(repo: BareRepository, commit: str, paths: Collection[bytes]) -> Iterator[tuple[bytes, TreeBlob]]:
    """Yield files of a commit; all of them if there are too many to name."""
    names = tuple(os.fsdecode(path) for path in paths) if sum(map(len, paths)) < _MAX_ARGUMENT_SIZE else ()
    for row in iterate_records(repo.check_output("ls-tree", "-r", "-z", "--full-tree", commit, *names)):
        head, _, path = row.partition(b"\t")
        if path:
            mode, _, oid = head.split(b" ")
            yield path, (int(mode, 8), oid.decode("ascii"))


# The user's uncommitted edits


def _find_user_edits(
    tree: OverlayView, repo: BareRepository, git_changes: GitChanges, start: str
) -> dict[str, tuple[bytes, ...]]:
    """Return, by commit, the paths that contain uncommitted edits of the user from the session's start."""
    dirty = _find_dirty(tree, repo, (file.path for commit in git_changes.commits for file in commit.changed_files), start)
    if not dirty:
        return {}
    from agent_dev.diff import contains_edit  # rarely needed

    rows = [
        (commit.id, file)
        for commit in git_changes.commits
        for file in commit.changed_files
        if file.path in dirty and file.new_mode != GITLINK
    ]
    texts = read_blobs(repo, [file.new_oid for _, file in rows if file.new_mode])
    holding: dict[str, list[bytes]] = {}
    for oid, file in rows:
        before, edited = dirty[file.path]
        if file.new_oid in texts and contains_edit.contains(before, edited, texts[file.new_oid]):
            holding.setdefault(oid, []).append(file.path)
    return {oid: tuple(sorted(paths)) for oid, paths in holding.items()}


def _find_dirty(tree: OverlayView, repo: BareRepository, paths: Iterable[bytes], start: str) -> dict[bytes, tuple[bytes, bytes]]:
    """Return, by path, the first commit's content and the user's uncommitted one at the start."""
    snapshot = tree.review.lower_snapshot
    stored = set(snapshot.stored_paths(tree.root)).intersection(paths)
    edited_ids: dict[bytes, str] = {}  # of the first commit's content, "" for none
    for path, side in iterate_tree(repo, start, stored) if stored and start else ():
        if path in stored:
            stored.remove(path)
            data = snapshot.content(tree.root, path)
            if side is not None and (data is None or not _is_blob(data, side[1], is_sha256=repo.is_sha256)):
                edited_ids[path] = side[1] if side[0] != GITLINK else ""
    edited_ids |= dict.fromkeys(stored, "")
    texts = read_blobs(repo, [oid for oid in edited_ids.values() if oid])
    found = {}
    for path, oid in sorted(edited_ids.items()):
        before, edited = texts.get(oid, b""), snapshot.content(tree.root, path)
        if edited is not None and before.replace(b"\r\n", b"\n") != edited.replace(b"\r\n", b"\n"):
            found[path] = (before, edited)
    return found


def _is_blob(data: bytes, oid: str, *, is_sha256: bool) -> bool:
    """Return whether a file has the content of a blob; line endings are ignored."""
    return any(blob_id(form, is_sha256=is_sha256) == oid for form in {data, data.replace(b"\r\n", b"\n")})


_Pairs = tuple[tuple[str, ...], ...]


@contextmanager
def _start_read(repo: BareRepository, pairs: _Pairs) -> Iterator[Callable[[], Mapping[str, bytes]]]:
    """Start to read the blobs for the risk rules, usually a few; yield a function that waits for them."""
    ids = list(dict.fromkeys(oid for pair in pairs for oid in pair))
    if not ids:
        yield dict
        return
    with repo.start(*blobs.BATCH, stdin=blobs.id_lines(ids), max_size=_MAX_FIRST_READ) as finish_git:

        def finish() -> Mapping[str, bytes]:
            try:
                texts = blobs.parse_blobs(repo, finish_git()[1], ids)
            except CommandFailed:
                return read_risk_blobs(repo, pairs)
            return {oid: texts[oid] for oid in _select(pairs, {oid: len(data) for oid, data in texts.items()})}

        yield finish


def read_risk_blobs(repo: BareRepository, pairs: _Pairs) -> Mapping[str, bytes]:
    """Return the blobs for the risk rules, by id and in this order, without large and unreadable ones."""
    sizes = blobs.read_sizes(repo, (oid for pair in pairs for oid in pair))
    return BlobBatches(repo, {oid: sizes[oid] for oid in _select(pairs, sizes)}, skips_unreadable=True)


def _select(pairs: _Pairs, sizes: Mapping[str, int]) -> dict[str, None]:
    """Select the ids to read, those of the newest commits first, up to the size limit; none of unreadable blobs."""
    selected: dict[str, None] = {}
    remaining = MAX_RISK_BYTES
    for pair in pairs:
        ids = [oid for oid in pair if oid in sizes and oid not in selected]
        size = sum(sizes[oid] for oid in ids)
        if size <= remaining and all(sizes[oid] <= MAX_INSPECTED_SIZE for oid in ids):
            remaining -= size
            selected |= dict.fromkeys(ids)
    return selected
