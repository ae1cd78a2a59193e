"""A review: a session's changes compared with the base and the real tree, for `status`, `diff`, `merge` and the screen."""

import errno
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING

from agent_dev.agent_git import refs
from agent_dev.errors import UnreadableSession
from agent_dev.fs import acl, case_folding, dir_tree, walk
from agent_dev.fs import entry as fs_entry
from agent_dev.fs.entry import Entry, FileType, Key, WalkedEntry, parents_of
from agent_dev.git import check_ignore
from agent_dev.merge import link_renames
from agent_dev.overlay import interpret
from agent_dev.overlay.case_collisions import with_collision_obstacle
from agent_dev.overlay.changes import UNASSESSED, Change, ChangeKind, ChangeSet, sorted_changes
from agent_dev.overlay.fold_renames import fold_renames
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.quick_dataclass import dataclass, field, replace
from agent_dev.session import store
from agent_dev.session.uppers import close_trees, open_trees

if TYPE_CHECKING:
    from agent_dev.fs.unlocked_directories import UnlockedDirectories
    from agent_dev.merge.assess import ChangeSize, RiskAssessor
    from agent_dev.merge.reconcile import Reconciliation, ThreeVersions

MAX_DIFF_SIZE = 20 << 20  # bytes; a larger file is not shown, and only selected as a whole
_UNASSESSED = (UNASSESSED,)
_DELETED_SUFFIXES = tuple(f": {os.strerror(code)}" for code in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE))  # while it was read


@dataclass(frozen=True, slots=True)
class ReviewFindings:
    """The unassessed changes of an opened session, and their reconciliation with the user's changes."""

    changes: ChangeSet
    reconciliations: "dict[Key, Reconciliation]"


def _is_free() -> None:
    """Do nothing, because no other process reads the session."""


@dataclass(slots=True)
class Review:
    """An open session for review and selection. `close` closes its descriptors."""

    session: store.Session
    record: store.Record
    changes: ChangeSet
    upper_trees: tuple[dir_tree.Tree, ...]
    real_trees: tuple[dir_tree.Tree, ...]
    lower_snapshot: LowerSnapshot
    environ: dict[str, str]
    reconciliations: "dict[Key, Reconciliation]" = field(default_factory=dict)  # of paths that the user changed too
    is_running: bool = False  # its agent may still write
    already_applied: int = 0  # further changes, which the real tree has already
    wait_until_free: Callable[[], None] = _is_free  # called before anything changes the session
    _assessor: "RiskAssessor | None" = None
    _folded: tuple[ChangeSet, ChangeSet] | None = None  # the changes, and the same folded

    def close(self) -> None:
        """Close every descriptor; the session stays locked."""
        if not self.is_running:
            close_trees(self.session, self.upper_trees)
        for tree in (*(self.upper_trees if self.is_running else ()), *self.real_trees):
            tree.close()
        self.lower_snapshot.close()

    def keys_at(self, path: str) -> list[Key]:
        """Return the keys of an absolute path: one for each root that contains it."""
        keys = []
        for number, tree in enumerate(self.real_trees):
            if path == tree.path:
                keys.append(Key(number, b""))
            elif path.startswith(tree.path + "/"):
                keys.append(Key(number, os.fsencode(path[len(tree.path) + 1 :])))
        return keys

    def findings(self) -> ReviewFindings | None:
        """Return the findings for the next open; None if unreadable directories were opened, as they are locked again."""
        return None if any(tree.unlocked for tree in self.upper_trees) else ReviewFindings(self.changes, self.reconciliations)

    def is_already_applied(self) -> bool:
        """Return whether the real tree has all of the session's changes already, and its repositories have nothing of their own.

        Another session with the same changes was merged, or the user made them.
        """
        is_empty = not (self.changes.changes or self.changes.problems or self.is_running)
        return is_empty and self.already_applied > 0 and not refs.have_refs_changed(self.session, self.record)

    @property
    def folded(self) -> ChangeSet:
        """Return the changes as users see them: each renamed file is one change, at its new path."""
        if self._folded is None or self._folded[0] is not self.changes:
            self._folded = (self.changes, fold_renames(self.changes))
        return self._folded[1]

    def find_change(self, key: Key) -> Change:
        """Return the change at a path; at the new path of a renamed file, the whole rename."""
        return self.folded.by_key().get(key) or self.changes.by_key()[key]

    @property
    def assessor(self) -> "RiskAssessor":
        """Return the assessor of the changes."""
        if self._assessor is None:
            from agent_dev.merge.assess import RiskAssessor  # not needed by merge and undo alone

            self._assessor = RiskAssessor(self)
        return self._assessor

    def release_derived(self) -> None:
        """Drop what was derived from the changes, much memory for 100,000 of them. It is made again when it is needed."""
        self._assessor = self._folded = None
        self.lower_snapshot.release_index()

    def replace_changes(self, changes: Iterable[Change]) -> None:
        """Replace the changes by others of the same session, and free what was derived from them."""
        self.changes, self._folded, self._assessor = replace(self.changes, changes=tuple(changes)), None, None

    def assess(self, keys: Iterable[Key] | None = None) -> ChangeSet:
        """Assess changes by the risk rules, if not done yet (None: all that git does not ignore); return all changes."""
        wanted = None if keys is None else frozenset(keys)
        for changes in self.assessor.assess_in_batches(wanted) if wanted != frozenset() else ():
            self.changes, self._folded = changes, None  # drop those of before: 100,000 need much memory
        return self.changes

    def assess_visible(self, limit: int) -> ChangeSet:
        """Assess the changes that a list of `limit` shows, and return all changes; if there are many, most stay unassessed."""
        return self.assess(self.assessor.visible_keys(limit))

    def assess_with_counts(self, keys: Iterable[Key] | None = None, *, is_limited: bool = False) -> ChangeSet:
        """Return the folded changes assessed, with line counts and binary flags (None: all that git does not ignore).

        `is_limited`: of many without a cached result, only some; `assessor.postponed` is the number of the others.
        """
        renames = self.changes.renames
        every = None if keys is None else frozenset(one for key in keys for one in (key, renames.get(key, key)))
        folded = fold_renames(self.assessor.assess(every, with_counts=True, is_limited=is_limited))
        if not renames:
            return folded
        return replace(folded, changes=tuple(self._with_counts(one) if one.renamed_from else one for one in folded.changes))

    def _with_counts(self, change: Change) -> Change:
        try:
            size = self.measure(change)
        except OSError:
            return change  # the diff reports the error
        if size is None or not size.is_text:
            return change
        return replace(change, insertions=size.insertions, deletions=size.deletions)

    def measure(self, change: Change) -> "ChangeSize | None":
        """Count a file's hunks and lines; None if it is not a file, too large, or its content is unknown."""
        from agent_dev.merge.assess import has_lines, measure_change  # not needed by merge and undo alone

        return measure_change(change, *self.versions(change)) if has_lines(change) else None

    def content(self, key: Key, max_size: int = MAX_DIFF_SIZE) -> tuple[bytes | None, bytes | None]:
        """Return a change's content in the base and the agent's (of a link, its target); None for content that cannot be shown.

        The base's content of a renamed file is that at the old path. A file of more than `max_size` bytes is not read.
        """
        return self.versions(self.find_change(key), max_size)

    def versions(self, change: Change, max_size: int = MAX_DIFF_SIZE) -> tuple[bytes | None, bytes | None]:
        """Return the content of a change of this session, as `content` does; of an unfolded one, that at its own path."""
        key = change.key
        return self.base_content(change, max_size), self._read(self.upper_trees[key.root], change.after, key.path, max_size)

    def base_content(self, change: Change, max_size: int = MAX_DIFF_SIZE) -> bytes | None:
        """Return the base's content of a change (a link's target); None if it is unknown."""
        before, key = change.before, change.renamed_from or change.key
        if before is None:
            return None
        if before.type is FileType.SYMLINK:
            return before.target
        real = self.real_trees[key.root].entry_at(key.path)
        if real is not None and real.identity == before.identity:
            try:
                return self._read(self.real_trees[key.root], before, key.path, max_size)
            except PermissionError:
                return None
        return self.lower_snapshot.content(key.root, key.path) if before.size <= max_size else None

    @staticmethod
    def _read(tree: dir_tree.Tree, entry: Entry | None, path: bytes, max_size: int = MAX_DIFF_SIZE) -> bytes | None:
        if entry is None or entry.type not in (FileType.FILE, FileType.SYMLINK):
            return None
        return entry.target if entry.type is FileType.SYMLINK else tree.read(path, max_size)


def open_review(
    session: store.Session,
    environ: dict[str, str],
    *,
    with_risks: bool = True,
    is_running: bool = False,
    seen: ReviewFindings | None = None,
    paths: tuple[str, ...] = (),
) -> Review:
    """Open a session. Raises UnreadableSession; changes nothing.

    `with_risks`: assess every change that git does not ignore now; else none until `assess` is called.
    `is_running`: the agent may change files during the read, and no file mode is changed (`merge/running_session.py`).
    `seen`: the findings of a previous open since which the session was locked; they are not searched again.
    `paths`: absolute ones that the caller is interested in; if all are edited files, only these are compared.
    """
    review = _open_trees(session, environ, is_running=is_running)
    if seen is not None:
        review.changes, review.reconciliations = seen.changes, dict(seen.reconciliations)
    _read_changes(review, paths, is_known=seen is not None, with_risks=with_risks)
    return review


def open_restore_review(session: store.Session, environ: dict[str, str], unlocked: "UnlockedDirectories | None") -> Review:
    """Open a session that restores a tree. Raises UnreadableSession.

    `unlocked`: the directories that the caller has unlocked in the real tree; they are compared with their own modes.
    """
    review = _open_trees(session, environ, is_running=False)
    review.real_trees[0].unlocked = unlocked
    _read_changes(review, (), is_known=False, with_risks=False)
    review.real_trees[0].unlocked = None  # a merge unlocks directories itself, and records them in its journal
    return review


def _open_trees(session: store.Session, environ: dict[str, str], *, is_running: bool) -> Review:
    record = store.read_record(session)
    roots = [session.root(number, str(path)) for number, path in enumerate(record["roots"])]
    if not is_running:
        store.make_uppers_accessible(session, len(roots))
    try:
        uppers = _running_trees(session, len(roots)) if is_running else open_trees(session, len(roots))
        real_trees = tuple(dir_tree.Tree(root.path, is_reviewed=True) for root in roots)
    except OSError as error:
        store.require_roots(session, record)
        raise UnreadableSession(session=store.session_name(session), reason=f"{error.filename}: {error.strerror}") from None
    base = LowerSnapshot(session.lower_snapshot)
    return Review(session, record, ChangeSet(()), uppers, real_trees, base, environ, is_running=is_running)


def _read_changes(review: Review, paths: tuple[str, ...], *, is_known: bool, with_risks: bool) -> None:
    """Find the changes of an open session, unless they are known, and assess them. Closes it on failure."""
    try:
        if not is_known:
            review.changes = _changes(review, edited_files(review, paths))
            similarity = review.record.get("rename_similarity", store.DEFAULT_SIMILARITY)
            review.changes = link_renames.link_renames(review, similarity)
            review.changes = link_renames.link_moves_to_ignored(review, similarity)
            review.changes = link_renames.link_copies(review)
            review.lower_snapshot.release_index()
        if with_risks:
            review.assess()
    except OSError:
        review.close()
        raise
    except fs_entry.CorruptUpperError as error:
        review.close()
        name = store.session_name(review.session)
        hint = f"inspect {review.session.folder}, or agent-dev discard {name}"
        raise UnreadableSession(session=name, reason=str(error), hint=hint) from None


def _running_trees(session: store.Session, count: int) -> tuple[dir_tree.Tree, ...]:
    """Open the uppers of a running session without changing any mode. Raises OSError."""
    return tuple(dir_tree.Tree(session.root(number, "").upper) for number in range(count))


def edited_files(review: Review, paths: tuple[str, ...]) -> frozenset[Key]:
    """Return the keys of paths that are regular files in the base and in the upper; none unless all paths are such files.

    A diff of these files needs no other change: a file that the base has is no renamed one.
    """
    keys = [key for path in paths for key in review.keys_at(path)[:1]]
    try:
        is_each = len(keys) == len(paths) and all(_is_edited(review, key) for key in keys)
    except OSError:
        return frozenset()  # unreadable
    return frozenset(keys) if is_each else frozenset()


def _is_edited(review: Review, key: Key) -> bool:
    before = review.lower_snapshot.entries(key.root).get(key.path)
    after = review.upper_trees[key.root].entry_at(key.path, attributes=False)
    return review.lower_snapshot.is_complete and all(side is not None and side.type is FileType.FILE for side in (before, after))


def _changes(review: Review, only: frozenset[Key] = frozenset()) -> ChangeSet:
    """Return the changes; with `only`, those at these keys and whatever lies on the way to them."""
    found: list[Change] = []
    problems: list[str] = []
    untrusted = store.untrusted_paths(review.record)
    review.already_applied = 0
    for number in range(len(review.upper_trees)):
        changes = _root_changes(review, number, problems, only)
        hidden = check_ignore.find_ignored(
            review.real_trees[number].path, [change.key.path for change in changes], untrusted, review.environ
        )
        hidden |= _files_of_agent(review.record, changes)
        found += (_unassessed(change, is_ignored=change.key.path in hidden) for change in changes)
    return ChangeSet(tuple(found), tuple(problems), review.lower_snapshot.notes)


def _files_of_agent(record: store.Record, changes: Iterable[Change]) -> frozenset[bytes]:
    """Return the new files that an agent leaves in each repository, such as its caches (`leaves` in its profile)."""
    patterns = record.get("leaves")
    if not patterns:
        return frozenset()
    from agent_dev.path_patterns import files_left  # few agents leave files

    return files_left(patterns, (change.key.path for change in changes if change.kind is ChangeKind.ADDED))


def _unassessed(change: Change, *, is_ignored: bool) -> Change:
    """Return a change as not assessed; most are the same already, and a copy of each would take as long as reading them."""
    is_same = change.risks == _UNASSESSED and change.is_ignored == is_ignored
    return change if is_same else replace(change, is_ignored=is_ignored, risks=_UNASSESSED)


def _upper_entries(review: Review, number: int, problems: list[str], only: frozenset[Key]) -> list[WalkedEntry]:
    """Return the entries of an upper; with `only`, those at these keys and at the directories above them."""
    tree = review.upper_trees[number]
    if only:
        paths = {path for key in only if key.root == number for path in (*parents_of(key.path), key.path)}
        return [walk.walked_entry(tree.directory(path.rpartition(b"/")[0]), path) for path in sorted(paths)]
    skip = (b".git",) if refs.has_private_git_dir(review.record, number) else ()
    walk_problems: list[str] = []
    upper = list(walk.walk(tree.path, skip=skip, problems=walk_problems, opened=tree.unlocked))
    problems += [one for one in walk_problems if not (review.is_running and one.endswith(_DELETED_SUFFIXES))]
    return upper


def _root_changes(review: Review, number: int, problems: list[str], only: frozenset[Key]) -> tuple[Change, ...]:
    upper_tree, real_tree = review.upper_trees[number], review.real_trees[number]
    upper = _upper_entries(review, number, problems, only)
    if not upper:
        return ()
    base, doubtful = _base_entries(review, number)
    unknown = [one for one in upper if not review.lower_snapshot.knows_attributes(number, one.path)]
    base = _with_attributes(base, unknown, real_tree)
    same = frozenset(path for path in interpret.files_to_compare(upper, base) if _is_same(review, number, base[path], path))
    if review.record.get("is_restore"):
        same = frozenset(path for path in same if acl.read_below(upper_tree, path) == acl.read_below(real_tree, path))
    with_git = bool(review.record.get("is_restore"))
    changes = interpret.interpret(number, upper, base, same, with_git=with_git, risks=_UNASSESSED)
    problems += map(_hidden_deletion, interpret.unknown_deletions(upper, base))
    state = interpret.ComparedEntries(base, entries_at(real_tree, (change.key.path for change in changes), base), doubtful)
    if collisions := case_folding.case_collisions(real_tree, state.real, state.base):
        changes = tuple(with_collision_obstacle(change, collisions) for change in changes)
    kept: list[Change] = []
    gone: list[bytes] = []
    for change in changes:
        reconciled = _reconciled(review, change, state, real_tree)
        if reconciled is None:
            gone.append(change.key.path)
        else:
            kept.append(reconciled)
    review.already_applied += len(gone)
    problems += map(_hidden_change, {*gone} & {*interpret.unknown_folders(upper, base)})
    emptied = _emptied(number, interpret.deleted_folders(upper, base, gone), base, real_tree) if gone else []
    return tuple(sorted_changes((*kept, *emptied)) if emptied else kept)


def _hidden_deletion(path: bytes) -> str:
    return f"{os.fsdecode(path)}: the agent deleted it in a directory that you cannot access; the deletion stays in the session"


def _hidden_change(path: bytes) -> str:
    return f"{os.fsdecode(path)}: the agent changed its mode in a directory that you cannot list; the change stays in the session"


def _reconciled(review: Review, change: Change, state: interpret.ComparedEntries, real: dir_tree.Tree) -> Change | None:
    """Return a change with its conflict, merged with the user's change, or None if the real tree has it already."""
    if change.obstacle:
        return change
    found = interpret.conflict_reason(change, state)
    if found is None and _has_other_attributes(change, real):
        found = "its attributes were changed since the session started"
    if found is None:
        why = _replace_conflict(real, change.key.path, state) if _replaces_directory(change) else ""
        return replace(change, conflict=why) if why else change
    if folder := inaccessible_directory(real, change.key.path):
        return replace(change, conflict=f"you cannot access {os.fsdecode(folder)}")
    now = real.entry_at(change.key.path)
    if interpret.incomparable_reason(change, state) or _retypes_directory(change, now):
        return replace(change, conflict=found)
    from agent_dev.merge.reconcile import reconcile_change  # rarely needed: most changes do not conflict

    fit_result = reconcile_change(change, now, _sides(review, change, real))
    if fit_result.change is not None:
        review.reconciliations[change.key] = fit_result
    return fit_result.change


def inaccessible_directory(real: dir_tree.Tree, path: bytes) -> bytes:
    """Return the directory above a path that its owner may not enter; b"" if there is none."""
    if real.entry_at(path, attributes=False) != dir_tree.UNKNOWN:
        return b""
    folders = reversed(parents_of(path))
    return next((one for one in folders if real.entry_at(one, attributes=False) != dir_tree.UNKNOWN), b"")


def _retypes_directory(change: Change, now: Entry | None) -> bool:
    """Return whether a change of the type concerns a directory, whose entries are changes of their own."""
    entries = (change.before, change.after, now)
    return change.kind is ChangeKind.RETYPED and any(one is not None and one.type is FileType.DIRECTORY for one in entries)


def _has_other_attributes(change: Change, real: dir_tree.Tree) -> bool:
    """Return whether the user changed the attributes of a directory that the agent changed too. A file's identity shows this."""
    if change.kind is not ChangeKind.METADATA or change.type is not FileType.DIRECTORY or change.before is None:
        return False
    now = real.entry_at(change.key.path)
    return now is not None and now.attributes != change.before.attributes


def _emptied(number: int, folders: Iterable[bytes], base: Mapping[bytes, Entry], real: dir_tree.Tree) -> list[Change]:
    """Return the deletions of directories that the agent deleted and the user emptied.

    Before, the deletions of their entries implied it.
    """
    found = []
    for path in folders:
        now = real.entry_at(path)
        if base[path].type is FileType.DIRECTORY and now is not None and now.type is FileType.DIRECTORY and _is_empty(real, path):
            found.append(Change(Key(number, path), ChangeKind.DELETED, now, None))
    return found


def _is_empty(real: dir_tree.Tree, path: bytes) -> bool:
    try:
        return not os.listdir(f"/proc/self/fd/{real.directory(path)}")
    except OSError:
        return False  # unreadable


def _replaces_directory(change: Change) -> bool:
    return change.kind is ChangeKind.RETYPED and change.before is not None and change.before.type is FileType.DIRECTORY


def _sides(review: Review, change: Change, real: dir_tree.Tree) -> "ThreeVersions":
    def read(tree: dir_tree.Tree, entry: Entry | None) -> bytes | None:
        if entry is None or entry.type is not FileType.FILE:
            return None
        try:
            return tree.read(change.key.path, MAX_DIFF_SIZE)
        except OSError:
            return None  # just changed, or not readable

    from agent_dev.merge.reconcile import ThreeVersions  # rarely needed: most changes do not conflict

    is_file = change.before is not None and change.before.type is FileType.FILE and change.before.size <= MAX_DIFF_SIZE
    base = review.lower_snapshot.content(change.key.root, change.key.path) if is_file else None
    agent = read(review.upper_trees[change.key.root], change.after)
    return ThreeVersions(base, read(real, real.entry_at(change.key.path)), agent)


def _replace_conflict(real: dir_tree.Tree, folder: bytes, state: interpret.ComparedEntries) -> str:
    """Return why a directory cannot be replaced: it has, or may have, entries that the base did not have; "" if it can."""
    problems: list[str] = []
    try:
        below = list(walk.walk(f"/proc/self/fd/{real.directory(folder)}", problems=problems, attributes=False))
    except PermissionError:
        problems.append("")
        below = []
    if any(folder + b"/" + one.path not in state.base for one in below):
        return "files were created in it since the session started"
    return "you cannot list its entries" if problems else ""


def _base_entries(review: Review, number: int) -> tuple[MutableMapping[bytes, Entry], frozenset[bytes]]:
    """Return a root's base entries; without a complete base the current ones, and which of them changed since the start."""
    if review.lower_snapshot.exists() and review.lower_snapshot.is_complete:
        return review.lower_snapshot.entries(number), frozenset()
    started = review.record.get("launched") or review.record.get("started") or 0
    known = review.lower_snapshot.entries(number)
    real = review.real_trees[number]
    now = {one.path: one.entry for one in walk.walk(real.path, skip=(b".git",), attributes=False, opened=real.unlocked)}
    moved = {path for path, entry in now.items() if path not in known and entry.ctime >= started}
    return {**now, **known}, frozenset(moved)


def _with_attributes(
    base: MutableMapping[bytes, Entry], upper: Iterable[WalkedEntry], real: dir_tree.Tree
) -> MutableMapping[bytes, Entry]:
    """Add extended attributes of copied-up entries that the base lacks: an unchanged ctime proves that they are still its own."""
    for one in upper:
        before = base.get(one.path)
        if before is not None and before.type in (FileType.FILE, FileType.DIRECTORY):
            now = real.entry_at(one.path)
            if now is not None and now.attributes and (now.identity == before.identity or now.type is FileType.DIRECTORY):
                base[one.path] = before.with_values(attributes=now.attributes)
    return base


def _is_same(review: Review, number: int, before: Entry, path: bytes) -> bool:
    real, upper = review.real_trees[number].entry_at(path), review.upper_trees[number]
    if real is not None and real.identity == before.identity:
        try:
            return dir_tree.have_same_content(upper, review.real_trees[number], path)
        except PermissionError:
            return False  # the user's own unreadable file
        except FileNotFoundError:
            if review.is_running:
                return False
            raise
    known = review.lower_snapshot.content(number, path)
    try:
        return known is not None and known == upper.read(path, len(known))
    except OSError:
        if review.is_running:
            return False  # deleted or made unreadable during the read
        raise


def entries_at(
    tree: dir_tree.Tree, paths: Iterable[bytes], base: Mapping[bytes, Entry] | None = None
) -> dict[bytes, Entry | None]:
    """Return the entries at some paths and at the directories above them; equal ones of `base` themselves, to save memory."""
    found: dict[bytes, Entry | None] = {}
    folder = b""
    for each in paths:
        last, folder = folder, each.rpartition(b"/")[0]
        for path in (each,) if folder == last else (*parents_of(each), each):
            if path not in found:
                is_bare = found.get(path.rpartition(b"/")[0], True) is None  # no entry below a missing directory
                entry = None if is_bare else tree.entry_at(path, attributes=False)
                known = base.get(path) if base is not None else None
                found[path] = known if known == entry else entry
    return found
