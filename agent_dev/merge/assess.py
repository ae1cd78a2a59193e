"""Assess a session's changes by the risk rules and count their lines: once, and only if they are shown or selected."""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from agent_dev import __version__
from agent_dev.diff.binary import is_binary
from agent_dev.diff.equal_ends import equal_ends
from agent_dev.fs import dir_tree, fork_map
from agent_dev.fs.entry import FileType, Key
from agent_dev.merge import escaping_links
from agent_dev.merge.restorable import RestorableFiles
from agent_dev.overlay import embedded_repositories, symlinks
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Risk
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.risk import content, deletions, new_lines, risk_rules
from agent_dev.risk import load as risk_load
from agent_dev.risk.cache import RiskCache, Row, fingerprint
from agent_dev.risk.risk_rules import RiskRule

if TYPE_CHECKING:
    from agent_dev.merge.review_protocol import ReviewProtocol

_HEAD_SIZE = 4096  # bytes to read from a file above the size limit of the rules
_MAX_AT_ONCE = 20_000  # changes that are assessed at once: the tasks and the results of 100,000 would need much memory
_MIN_BYTES_TO_FORK = 4 << 20  # bytes to read, above which a second process pays off
_MAX_BYTES_AT_ONCE = 2 << 20  # bytes; up to that a list at the end of a run, or of `status`, assesses every change
_MAX_FILES_AT_ONCE = 200  # files; as above

# The code that finds risks, by name, since not all is imported: cached results are valid only for the version that produced them.
_CODE = (
    "path_patterns",
    "wildcard",
    "overlay/symlinks",
    *(f"risk/{name}" for name in ("content", "risk_rules", "harmless_lines", "hidden_text", "json_text", "lock_files")),
    *(f"risk/{name}" for name in ("new_lines", "plain_text", "shadowed_modules")),
)
_NOTHING_FOUND: Row = [(), None]  # the result for most changes: 100,000 lists would need 9 MB


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """The size of a file's change: hunks, added lines, deleted lines."""

    hunks: int = 0
    insertions: int = 0
    deletions: int = 0
    is_text: bool = True


@dataclass(frozen=True, slots=True)
class _Task:
    """A change to assess."""

    change: Change
    is_embedded: bool
    with_risks: bool
    with_counts: bool
    origin: risk_rules.Origin | None = None

    def mark(self) -> str:
        """Return what the result depends on."""
        change, origin = self.change, self.origin
        about = f"{change.kind}:{self.is_embedded}:{origin.path if origin else b''!r}"
        return fingerprint(change.before, change.after, *([origin.entry] if origin else ()), about=about)

    @property
    def is_kept(self) -> bool:
        """Return whether the result depends on the two files alone and may be cached; a link's target is not enough."""
        before, after = self.change.before, self.change.after
        return (before is None or before.type is FileType.FILE) and (after is None or after.type is FileType.FILE)

    @property
    def written(self) -> int:
        """Return when the newer side was written, in ns since 1970; 0 if unknown."""
        return max((side.ctime for side in (self.change.before, self.change.after) if side is not None), default=0)


class RiskAssessor:
    """Assesses the changes of one review."""

    def __init__(self, review: "ReviewProtocol") -> None:
        self._review, self._process = review, os.getpid()
        self._rules = risk_load.load_risk_rules(review.environ)
        self._by_name = {rule.name: Risk(rule.name, rule.why, rule.check) for rule in self._rules}
        self._known = RiskCache(review.session.folder, _rules_version(self._rules))
        self._embedded = [
            embedded_repositories.find_repositories(change for change in review.changes.changes if change.key.root == number)
            for number in range(len(review.upper_trees))
        ]
        self._leaves: dict[int, risk_rules.LeavesRoot] = {}
        self._restorable = RestorableFiles(review)
        self.postponed = 0  # changes that the last call of `assess` left out because of its limit

    def assess(self, keys: Iterable[Key] | None = None, *, with_counts: bool = False, is_limited: bool = False) -> ChangeSet:
        """Return the changes, those at `keys` assessed (None: all that git does not ignore), optionally with line counts.

        `is_limited`: if too many have no cached result, assess only those of them with risky names.
        """
        last = deque(self.assess_in_batches(keys, with_counts=with_counts, is_limited=is_limited), maxlen=1)
        return last.pop() if last else self._review.changes

    def assess_in_batches(
        self, keys: Iterable[Key] | None = None, *, with_counts: bool = False, is_limited: bool = False
    ) -> Iterator[ChangeSet]:
        """Yield what `assess` returns, after each batch: a caller that drops the changes before needs less memory."""
        wanted = None if keys is None else frozenset(keys)
        updated, others = list(self._review.changes.changes), replace(self._review.changes, changes=())
        candidates = (
            at
            for at, one in enumerate(updated)
            if (not one.is_ignored if wanted is None else one.key in wanted) and (with_counts or not one.is_assessed)
        )
        self.postponed = 0
        while part := list(islice(candidates, None if is_limited else _MAX_AT_ONCE)):  # a limit is for all of them
            rows = self._assess([self._task(updated[at], with_counts=with_counts) for at in part], is_limited=is_limited)
            for at in part:
                one = updated[at]
                row = rows.get(one.key)
                updated[at] = one if row is None else _with_result(one, self._reviewed_deletion(row, one))
            del rows, one
            yield replace(others, changes=tuple(updated))
        if not self._review.is_running:
            self._known.save()

    def _reviewed_deletion(self, row: Row, change: Change) -> Row:
        """Drop the risks of a deletion that needs no review: git can restore it, it is half of a rename, or an old test."""
        names = {one.rule for one in row[0] or ()}
        if deletions.UNRESTORABLE_RULE in names and self._is_kept_elsewhere(change):
            names.discard(deletions.UNRESTORABLE_RULE)
        new = self._new_names.get(change.key, change.key)
        is_still_test = new != change.key and deletions.is_test_of(new.path, self._changed_stems)
        if deletions.TEST_RULE in names and (is_still_test or not deletions.is_test_of(change.key.path, self._changed_stems)):
            names.discard(deletions.TEST_RULE)
        return row if row[0] is None or len(names) == len(row[0]) else [tuple(one for one in row[0] if one.rule in names), row[1]]

    def _is_kept_elsewhere(self, change: Change) -> bool:
        if change.after is not None and change.after.type not in (FileType.FILE, FileType.SYMLINK, FileType.DIRECTORY):
            return False  # reading the path could block
        return change.key in self._new_names or self._restorable.contains(change)

    @cached_property
    def _new_names(self) -> dict[Key, Key]:
        return {old: new for new, old in self._review.changes.renames.items()}

    @cached_property
    def _changed_stems(self) -> frozenset[str]:
        changes = self._review.changes.changes
        paths = (one.key.path for one in changes if one.kind in (ChangeKind.EDITED, ChangeKind.ADDED))
        return deletions.changed_stems(paths, (one.key.path for one in changes))

    def visible_keys(self, limit: int) -> Iterable[Key] | None:
        """Return what to assess for a list of `limit` changes: of a large number those with risky names, and the first ones.

        None: all.
        """
        candidates = [one for one in self._review.changes.changes if not one.is_ignored]
        if len(candidates) <= _MAX_FILES_AT_ONCE and sum(map(_size, candidates)) <= _MAX_BYTES_AT_ONCE:
            return None
        keys = islice((one.key for one in candidates if self._is_risky_by_name(one)), _MAX_FILES_AT_ONCE)
        return (*keys, *(one.key for one in candidates[:limit]))

    def _within_limits(self, tasks: list[_Task]) -> list[_Task]:
        """Return all tasks if they fit the limits, else those with risky names that do."""
        if len(tasks) <= _MAX_FILES_AT_ONCE and sum(_size(task.change) for task in tasks) <= _MAX_BYTES_AT_ONCE:
            return tasks
        kept, left = [], _MAX_BYTES_AT_ONCE
        for task in tasks:
            if _size(task.change) <= left and self._is_risky_by_name(task.change):
                kept.append(task)
                left -= _size(task.change)
            if len(kept) == _MAX_FILES_AT_ONCE:
                break
        return kept

    def _is_risky_by_name(self, change: Change) -> bool:
        return risk_rules.has_risky_name(change, self._rules, is_embedded=self._is_embedded(change))

    def _is_embedded(self, change: Change) -> bool:
        return embedded_repositories.is_inside(change.key.path, self._embedded[change.key.root])

    def _leaves_of(self, change: Change) -> risk_rules.LeavesRoot:
        """Return the function that tells whether a link leads out after all links of the session are applied."""
        number, review = change.key.root, self._review
        if change.type is not FileType.SYMLINK:
            return symlinks.escapes_root
        if number not in self._leaves:
            every = (one for one in review.changes.changes if one.key.root == number)
            self._leaves[number] = escaping_links.checker_for_changes(
                every, number, review.real_trees[number], review.lower_snapshot
            )
        return self._leaves[number]

    def _task(self, change: Change, *, with_counts: bool) -> _Task:
        return _Task(change, self._is_embedded(change), not change.is_assessed, with_counts, self._origin(change))

    def _origin(self, change: Change) -> risk_rules.Origin | None:
        """Return the file that a new one was renamed or copied from."""
        renames = self._review.changes.renames
        if not renames and change.copied_from is None:
            return None
        old = renames.get(change.key)
        deleted = self._review.changes.by_key().get(old) if old is not None else None
        if deleted is not None:
            old, entry = deleted.key, deleted.before
        else:
            old = change.copied_from
            entry = self._review.lower_snapshot.entries(old.root).get(old.path) if old is not None else None
        if old is None or entry is None:
            return None
        renamed = replace(change, before=entry, renamed_from=old)
        return risk_rules.Origin(old.path, entry, cache(lambda: self._review.base_content(renamed) or b""))

    def _assess(self, tasks: list[_Task], *, is_limited: bool) -> dict[Key, Row]:
        found, todo, uncounted = self._cached(tasks)
        if is_limited:
            kept = self._within_limits(todo)
            if len(kept) < len(todo):  # risks without line counts are better than none
                found = uncounted | found
            self.postponed = len({task.change.key for task in tasks} - {task.change.key for task in kept} - found.keys())
            todo = kept
        now = time.time_ns()
        is_much = sum(_size(task.change) for task in todo) >= _MIN_BYTES_TO_FORK
        rows = fork_map.fork_map(self._row, todo) if is_much else [self._row(task) for task in todo]
        for task, row in zip(todo, rows, strict=True):
            if task.is_kept and row[0] is not None:
                self._known.put(task.change.key, task.mark(), row, task.written, now)
            found[task.change.key] = self._decoded(row)
        return found

    def _cached(self, tasks: list[_Task]) -> tuple[dict[Key, Row], list[_Task], dict[Key, Row]]:
        """Return the cached results, the tasks without one, and those of their results that lack only line counts."""
        found, todo, uncounted = {}, [], {}
        for task in tasks:
            key = task.change.key
            row = self._known.get(key, task.mark) if task.is_kept else None
            if row is None or not all(name in self._by_name for name in row[0] or ()):
                todo.append(task)
            elif task.with_counts and row[1] is None:
                todo.append(task)
                uncounted[key] = self._decoded(row)
            else:
                found[key] = self._decoded(row)
        return found, todo, uncounted

    def _decoded(self, row: Row) -> Row:
        names, counts = row
        if names == [] and counts is None:
            return _NOTHING_FOUND
        return [None if names is None else tuple(self._by_name[name] for name in names), counts]

    def _row(self, task: _Task) -> Row:
        """Assess a change; one that cannot be read stays unassessed."""
        review, change = self._review, task.change
        if self._process != os.getpid():  # in a forked child: do not share the parent's git pipes
            self._process = os.getpid()
            review.lower_snapshot.reset_after_fork()
        # Used by both the rules and the line counts; most of many changes are new files.
        base = cache(lambda: review.base_content(change)) if change.before is not None else _no_content
        try:
            after = _agent_bytes(review.upper_trees[change.key.root], change)
            names = [one.rule for one in change.risks]
            if task.with_risks:
                names = [one.rule for one in self._find_risks(task, after, lambda: base() or b"")]
            counts = measure_change(change, base(), after) if task.with_counts and has_lines(change) else None
        except OSError:
            return [None, None]
        return [names, None if counts is None else [counts.is_text, counts.insertions, counts.deletions]]

    def _find_risks(self, task: _Task, after: bytes, base: new_lines.ReadBase) -> tuple[Risk, ...]:
        change, leaves = task.change, self._leaves_of(task.change)
        return risk_rules.find_risks(change, self._rules, after, task.origin or base, is_embedded=task.is_embedded, leaves=leaves)


def _no_content() -> None:
    """Return the content of a file that the base does not have."""


def has_lines(change: Change) -> bool:
    """Return whether a change may have countable lines: every side is a regular file of limited size."""
    sides = [side for side in (change.before, change.after) if side is not None]
    return change.kind is not ChangeKind.METADATA and all(
        side.type is FileType.FILE and side.size <= content.MAX_INSPECTED_SIZE for side in sides
    )


def measure_change(change: Change, before: bytes | None, after: bytes | None) -> ChangeSize | None:
    """Count a file's hunks and lines; None if the content of a side is unknown."""
    if (before is None and change.before) or (after is None and change.after):
        return None
    from agent_dev.diff import hunks  # not needed to list names only

    before, after = before or b"", after or b""
    if is_binary(before) or is_binary(after):
        return ChangeSize(is_text=False)
    start, end = equal_ends(before, after)
    deleted, inserted = before[start : len(before) - end], after[start : len(after) - end]
    if not (deleted and inserted) and before != after:  # nothing to compare: lines were only inserted, or only deleted
        return ChangeSize(1, hunks.count_lines(inserted), hunks.count_lines(deleted))
    found = hunks.find_hunks(before, after)
    return ChangeSize(len(found), sum(one.new_lines for one in found), sum(one.old_lines for one in found))


def _with_result(change: Change, row: Row) -> Change:
    if row[0] is None:
        return change
    risks, counts = row
    if counts is None:
        same = change.insertions, change.deletions
        return change if change.risks == risks else change.with_findings(risks, *same, is_binary=change.is_binary)
    is_text, insertions, deletions = counts
    if not is_text:
        return change.with_findings(risks, change.insertions, change.deletions, is_binary=True)
    return change.with_findings(risks, insertions, deletions, is_binary=change.is_binary)


def _size(change: Change) -> int:
    after = change.after
    return min(after.size, content.MAX_INSPECTED_SIZE) if after is not None and after.type is FileType.FILE else 0


def _agent_bytes(tree: dir_tree.Tree, change: Change) -> bytes:
    """Return the content of the agent's file; of a very large one only the beginning."""
    if (
        change.after is None
        or change.after.type is not FileType.FILE
        or not change.after.size
        or change.kind is ChangeKind.METADATA
    ):
        return b""
    fd = tree.open(change.key.path, os.O_RDONLY)
    try:
        return (
            os.read(fd, _HEAD_SIZE)
            if change.after.size > content.MAX_INSPECTED_SIZE
            else dir_tree.read_all(fd, change.after.size, content.MAX_INSPECTED_SIZE)
        )
    finally:
        os.close(fd)


def _rules_version(rules: tuple[RiskRule, ...]) -> str:
    """Return a version that changes with the rules and with the code that applies them."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = [os.stat(f"{package}/{name}.py").st_mtime_ns for name in _CODE]
    return sha256(repr((__version__, code, rules)).encode()).hexdigest()[:24]
