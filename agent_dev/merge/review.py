"""A session's changes against its base and the real tree now: what `status`, `diff`, `merge` and the screen work on."""

import os
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent_dev.commits.agent_git import refs
from agent_dev.config import load
from agent_dev.errors import UnreadableSession
from agent_dev.fs import case_folding as folding
from agent_dev.fs import dir_tree as files
from agent_dev.fs import walk as scan
from agent_dev.git import check_ignore as ignored
from agent_dev.overlay import embedded_repositories as embedded
from agent_dev.overlay import interpret as overlay
from agent_dev.overlay.case_collisions import refused
from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, parents_of
from agent_dev.overlay.interpret import Found
from agent_dev.overlay.lower_snapshot import Base
from agent_dev.risk import content as evidence
from agent_dev.risk.risk_rules import RiskRule, judge
from agent_dev.session import store

if TYPE_CHECKING:
    from agent_dev.merge.reconcile import Fit, Sides

LARGEST_DIFF = 20 << 20  # bytes: past that a file is one choice and is not shown
_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Measure:
    """How much of a file changed: blocks, lines that come, lines that go."""

    blocks: int = 0
    insertions: int = 0
    deletions: int = 0
    is_text: bool = True


@dataclass(slots=True)
class Review:
    """A session that has ended, opened for looking and choosing. `close` lets go of its descriptors."""

    session: store.Session
    record: store.Record
    changes: ChangeSet
    uppers: tuple[files.Tree, ...]
    reals: tuple[files.Tree, ...]
    base: Base
    environ: dict[str, str]
    fits: "dict[Key, Fit]" = field(default_factory=dict)  # of changes whose path the user changed too

    def close(self) -> None:
        """Close every descriptor; the lock stays with the session."""
        for tree in (*self.uppers, *self.reals):
            tree.close()
        self.base.close()

    def counted(self) -> ChangeSet:
        """Return the changes with their lines counted and binaries found."""
        return replace(self.changes, changes=tuple(self._count(change) for change in self.changes.changes))

    def _count(self, change: Change) -> Change:
        measured = self.measure(change)
        if measured is None:
            return change
        if not measured.is_text:
            return replace(change, binary=True)
        return replace(change, insertions=measured.insertions, deletions=measured.deletions)

    def measure(self, change: Change) -> "Measure | None":
        """Count a file's blocks and lines; None where there are none to count: no file, too large, its bytes not known."""
        entries = [entry for entry in (change.before, change.after) if entry is not None]
        if any(entry.type is not FileType.FILE for entry in entries) or change.kind is Kind.METADATA:
            return None
        from agent_dev.diff import hunks as blocks  # what tells only names of files counts none of their lines

        before, after = self._contents(change)
        if (before is None and change.before) or (after is None and change.after):
            return None
        before, after = before or b"", after or b""
        if blocks.is_binary(before) or blocks.is_binary(after):
            return Measure(is_text=False)
        found = blocks.blocks(before, after)
        return Measure(len(found), sum(one.new_lines for one in found), sum(one.old_lines for one in found))

    def content(self, key: Key) -> tuple[bytes | None, bytes | None]:
        """Return the base's and the agent's bytes of a change (a link's target); None where there are none to show."""
        return self._contents(self.changes.by_key()[key])

    def _contents(self, change: Change) -> tuple[bytes | None, bytes | None]:
        key = change.key
        return self._base_content(change), self._read(self.uppers[key.root], change.after, key.path)

    def base_bytes(self, change: Change) -> Callable[[], bytes]:
        """Return what gives the base's bytes of a change when asked, none where they are not known."""
        return lambda: self._base_content(change) or b""

    def _base_content(self, change: Change) -> bytes | None:
        before, key = change.before, change.key
        if before is None:
            return None
        if before.type is FileType.SYMLINK:
            return before.target
        real = self.reals[key.root].look(key.path)
        if real is not None and real.identity == before.identity:
            try:
                return self._read(self.reals[key.root], before, key.path)
            except PermissionError:
                return None
        return self.base.content(key.root, key.path) if before.size <= LARGEST_DIFF else None

    @staticmethod
    def _read(tree: files.Tree, entry: Entry | None, path: bytes) -> bytes | None:
        if entry is None or entry.type not in (FileType.FILE, FileType.SYMLINK):
            return None
        return entry.target if entry.type is FileType.SYMLINK else tree.read(path, LARGEST_DIFF)


def open_review(session: store.Session, environ: dict[str, str], *, with_risks: bool = True) -> Review:
    """Open an ended session, for what tells nothing of files without their risks. Raises UnreadableSession; changes nothing."""
    record = store.read(session)
    paths = record["roots"]
    roots = [session.root(number, str(path)) for number, path in enumerate(paths)]
    store.reopen(session, len(roots))
    try:
        uppers = tuple(files.Tree(root.upper, is_ours=True) for root in roots)
        reals = tuple(files.Tree(root.path) for root in roots)
    except OSError as error:
        raise UnreadableSession(session=session.id, reason=f"{error.filename}: {error.strerror}") from None
    base = Base(session.base)
    review = Review(session, record, ChangeSet(()), uppers, reals, base, environ)
    try:
        review.changes = _changes(review, environ, load.risk_rules(environ) if with_risks else ())
    except overlay.CorruptUpperError as error:
        review.close()
        raise UnreadableSession(session=session.id, reason=str(error), hint="discard it, or look at it by hand") from None
    return review


def _changes(review: Review, environ: dict[str, str], rules: tuple[RiskRule, ...]) -> ChangeSet:
    found: list[Change] = []
    problems: list[str] = []
    untrusted = store.untrusted(review.record)
    for number, tree in enumerate(review.uppers):
        changes = _root_changes(review, number, problems)
        hidden = ignored.among(review.reals[number].path, [change.key.path for change in changes], untrusted, environ)
        inner = embedded.repositories(changes)
        for change in changes:
            is_embedded = embedded.is_in(change.key.path, inner)
            before = review.base_bytes(change)
            risks = judge(change, rules, _agent_bytes(tree, change), before, is_embedded=is_embedded) if rules else ()
            is_hidden = change.key.path in hidden
            found.append(replace(change, ignored=is_hidden, risks=risks) if is_hidden or risks else change)
    return ChangeSet(tuple(found), tuple(problems), review.base.notes)


def _agent_bytes(tree: files.Tree, change: Change) -> bytes:
    """Return the agent's file for rules that look at contents, of a very large one only its beginning."""
    if change.after is None or change.after.type is not FileType.FILE or not change.after.size or change.kind is Kind.METADATA:
        return b""
    fd = tree.open(change.key.path, os.O_RDONLY)
    try:
        return os.read(fd, _HEAD) if change.after.size > evidence.LOOKED_AT else files.read_all(fd, change.after.size)
    finally:
        os.close(fd)


def _root_changes(review: Review, number: int, problems: list[str]) -> tuple[Change, ...]:
    upper_tree, real_tree = review.uppers[number], review.reals[number]
    upper = list(scan.walk(upper_tree.path, skip=(b".git",) if refs.has_copy(review.record, number) else (), problems=problems))
    if not upper:
        return ()
    base, doubtful = _base(review, number)
    base = _with_attributes(base, upper, real_tree)
    same = frozenset(path for path in overlay.candidates(upper, base) if _is_same(review, number, base[path], path))
    changes = overlay.interpret(number, upper, base, same)
    ground = overlay.Ground(base, standing(real_tree, (change.key.path for change in changes)), doubtful)
    if twins := folding.twins(real_tree, ground.real, ground.base):
        changes = tuple(refused(change, twins) for change in changes)
    fitted = (_fitted(review, change, ground, real_tree) for change in changes)
    return tuple(change for change in fitted if change is not None)


def _fitted(review: Review, change: Change, ground: overlay.Ground, real: files.Tree) -> Change | None:
    """Return a change with its conflict, merged with what the user changed, or None when the real tree holds it already."""
    if change.obstacle:
        return change
    found = overlay.conflict(change, ground)
    if found is None:
        is_full = _replaces_directory(change) and _has_strangers(real, change.key.path, ground)
        return replace(change, conflict="something was put into it meanwhile") if is_full else change
    if overlay.bar(change, ground) or change.kind is Kind.RETYPED:
        return replace(change, conflict=found)
    from agent_dev.merge.reconcile import fit  # how texts are merged: as a rule nothing is in conflict

    made = fit(change, real.look(change.key.path), _sides(review, change, real))
    if made.change is not None:
        review.fits[change.key] = made
    return made.change


def _replaces_directory(change: Change) -> bool:
    return change.kind is Kind.RETYPED and change.before is not None and change.before.type is FileType.DIRECTORY


def _sides(review: Review, change: Change, real: files.Tree) -> "Sides":
    def read(tree: files.Tree, entry: Entry | None) -> bytes | None:
        if entry is None or entry.type is not FileType.FILE:
            return None
        try:
            return tree.read(change.key.path, LARGEST_DIFF)
        except OSError:
            return None  # changed in this instant, or not ours to read

    from agent_dev.merge.reconcile import Sides  # as above

    is_file = change.before is not None and change.before.type is FileType.FILE and change.before.size <= LARGEST_DIFF
    base = review.base.content(change.key.root, change.key.path) if is_file else None
    agent = read(review.uppers[change.key.root], change.after)
    return Sides(base, read(real, real.look(change.key.path)), agent)


def _has_strangers(real: files.Tree, folder: bytes, ground: overlay.Ground) -> bool:
    """Whether a directory holds something that the base did not."""
    below = scan.walk(f"/proc/self/fd/{real.folder(folder)}", attributes=False)
    return any(folder + b"/" + one.path not in ground.base for one in below)


def _base(review: Review, number: int) -> tuple[MutableMapping[bytes, Entry], frozenset[bytes]]:
    """Return what a root held; without a base what it holds now, and what of that moved since the start."""
    if review.base.is_known() and review.base.is_complete:
        return review.base.entries(number), frozenset()
    started = review.record.get("launched") or review.record.get("started") or 0
    known = review.base.entries(number)
    now = {one.path: one.entry for one in scan.walk(review.reals[number].path, skip=(b".git",), attributes=False)}
    moved = {path for path, entry in now.items() if path not in known and entry.ctime >= started}
    return {**now, **known}, frozenset(moved)


def _with_attributes(
    base: MutableMapping[bytes, Entry], upper: Iterable[Found], real: files.Tree
) -> MutableMapping[bytes, Entry]:
    """Add the extended attributes of what was copied up: the ctime vouches that they are still the base's."""
    for one in upper:
        before = base.get(one.path)
        if before is not None and before.type in (FileType.FILE, FileType.DIRECTORY):
            now = real.look(one.path)
            if now is not None and now.attributes and (now.identity == before.identity or now.type is FileType.DIRECTORY):
                base[one.path] = replace(before, attributes=now.attributes)
    return base


def _is_same(review: Review, number: int, before: Entry, path: bytes) -> bool:
    real = review.reals[number].look(path)
    if real is not None and real.identity == before.identity:
        try:
            return files.are_equal(review.uppers[number], review.reals[number], path)
        except PermissionError:
            return False  # a file of the user's that the user may not read
    known = review.base.content(number, path)
    return known is not None and known == review.uppers[number].read(path, 1 << 40)


def standing(tree: files.Tree, paths: Iterable[bytes]) -> dict[bytes, Entry | None]:
    """Return what stands at some paths, and at those above them."""
    found: dict[bytes, Entry | None] = {}
    for each in paths:
        for path in (*parents_of(each), each):
            if path not in found:
                is_bare = found.get(path.rpartition(b"/")[0], True) is None  # nothing is below nothing
                found[path] = None if is_bare else tree.look(path, attributes=False)
    return found
