"""Invariants after each step of a history, checked by comparing trees; independent of agent-dev's implementation.

A path is *near* another one if it is the same, above it or below it.
"""

import re
import stat
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from tests.harness.owner_view import TreeEntries, TreeEntry

Settled = dict[bytes, TreeEntry | None]  # entries of a session that are no changes any more; None: deleted there

_TOKEN = re.compile(rb"<u[0-9a-f]{6}>")
_LIST = "system.posix_acl_"


class Violation(AssertionError):
    """An invariant was violated."""


def demand(is_so: object, what: str) -> None:
    if not is_so:
        raise Violation(what)


def shown(one: TreeEntry | None) -> str:
    return "nothing" if one is None else repr(one)


def is_near(path: bytes, others: Iterable[bytes]) -> bool:
    return any(path == one or path.startswith(one + b"/") or one.startswith(path + b"/") for one in others)


def moved(before: TreeEntries, after: TreeEntries) -> set[bytes]:
    return {path for path in {*before, *after} if before.get(path) != after.get(path)}


def is_folder(one: TreeEntry | None) -> TypeGuard[TreeEntry]:
    return one is not None and stat.S_ISDIR(one.type)


def own(one: TreeEntry) -> tuple[tuple[str, bytes], ...]:
    """Return the attributes that are merged, without ACLs."""
    return tuple(row for row in one.attributes if not row[0].startswith(_LIST))


def has_list(*some: TreeEntry | None) -> bool:
    return any(name.startswith(_LIST) for one in some if one is not None for name, _ in one.attributes)


def is_landed(found: TreeEntry | None, wanted: TreeEntry | None, before: TreeEntry | None) -> bool:
    """Return whether the merged entry is the agent's: without mode bits 07000, and with the ACL from before."""
    if found is None or wanted is None:
        return found is wanted
    if (found.type, found.content) != (wanted.type, wanted.content) or own(found) != own(wanted):
        return False
    if stat.S_ISLNK(found.type) or has_list(found, wanted, before):
        return True
    return found.mode & 0o777 == wanted.mode & 0o777


def is_alike(one: TreeEntry | None, other: TreeEntry | None) -> bool:
    """Return whether two entries are equal in everything that is merged."""
    if one is None or other is None:
        return one is other
    if stat.S_ISDIR(one.type) and stat.S_ISDIR(other.type) and has_list(one, other):
        return own(one) == own(other)
    return is_landed(one, other, None)


def lost_attributes(base: TreeEntry | None, was: TreeEntry | None, now: TreeEntry | None) -> set[tuple[str, bytes]]:
    """Return the attributes that the user set and the entry lost, if all three entries have the same type."""
    if base is None or was is None or now is None or not base.type == was.type == now.type:
        return set()
    return {*own(was)} - {*own(base)} - {*own(now)}


def is_held(one: TreeEntry | None, base: TreeEntry | None, real: TreeEntry | None) -> bool:
    """Return whether the tree has all that the agent changed of an entry; the rest of the agent's entry equals the base."""
    if one is None or base is None or real is None or not one.type == base.type == real.type:
        return False
    return (
        one.content in (base.content, real.content)
        and own(one) in (own(base), own(real))
        and (has_list(one, base, real) or one.mode & 0o777 in (base.mode & 0o777, real.mode & 0o777))
    )


def tokens(one: TreeEntry | None) -> set[bytes]:
    return set(_TOKEN.findall(one.content)) if one is not None and stat.S_ISREG(one.type) else set()


def all_tokens(tree: TreeEntries) -> set[bytes]:
    return {token for one in tree.values() for token in tokens(one)}


def _put(tree: TreeEntries, path: bytes, one: TreeEntry | None) -> None:
    if one is None:
        tree.pop(path, None)
    else:
        tree[path] = one


@dataclass
class Interference:
    """The user's changes while a command ran: the tree before and after them; both are empty if there were none."""

    was: TreeEntries = field(default_factory=dict)
    now: TreeEntries = field(default_factory=dict)

    @property
    def paths(self) -> set[bytes]:
        return moved(self.was, self.now)

    def applied(self, tree: TreeEntries) -> TreeEntries:
        """Return a tree with the user's changes."""
        changed = {path: self.now.get(path) for path in self.paths}
        return {path: one for path, one in (tree | changed).items() if one is not None}

    def split(
        self, before: TreeEntries, after: TreeEntries, view: TreeEntries, taken: Collection[bytes]
    ) -> tuple[TreeEntries, TreeEntries]:
        """Return the trees before and after a merge: at paths that were merged already, the user changed the merge's result.

        If the user made the same change as the merge, and the merge reports it, it counts as the merge's. What the user created,
        and the merge does not report, is the user's: a directory may be renamed while the merge writes in it, or deletes in it.
        """
        began, made = dict(before), dict(after)
        by_both = self.by_both(before, after, view, taken)
        deleted = [self.was[path] for path in taken if path in self.was and path not in after]
        for path in self.paths - by_both:
            if path not in self.was and path not in taken and path in after:
                began[path] = after[path]
            elif path not in self.was and path not in after and self.now[path] in deleted:
                continue  # moved with its directory, where the merge deleted it
            elif self.was.get(path) == before.get(path):
                _put(began, path, self.now.get(path))
            else:
                _put(made, path, self.was.get(path))
        return began, made

    def by_both(self, before: TreeEntries, after: TreeEntries, view: TreeEntries, taken: Collection[bytes]) -> frozenset[bytes]:
        """Return the paths of which the merge reports the change that the user made, too.

        An undo restores what was there before the merge, or what the user made of it, depending on who came first.
        """
        meant = (path for path in self.paths if path in taken and not is_alike(view.get(path), before.get(path)))
        return frozenset(
            path for path in meant if self.now.get(path) == after.get(path) and is_alike(view.get(path), after.get(path))
        )

    def apart(self, tree: TreeEntries) -> TreeEntries:
        """Return a tree without the entries near a path that the user changed: there a command may stop at any point."""
        paths = self.paths - {b"."}
        return {path: one for path, one in tree.items() if not is_near(path, paths)} if paths else tree

    def apart_of(self, taken: Mapping[bytes, str]) -> dict[bytes, str]:
        """Return changes without those near a path that the user changed."""
        paths = self.paths - {b"."}
        return {path: kind for path, kind in taken.items() if not is_near(path, paths)}

    def check(self, tree: TreeEntries, by_hand: frozenset[bytes] = frozenset()) -> None:
        """Check that nothing that the user wrote is lost, except at paths that were resolved for the agent."""
        written = {path: one for path, one in self.now.items() if path not in by_hand}
        lost = all_tokens(written) - all_tokens(self.was) - all_tokens(tree)
        demand(not lost, f"{lost}, written while the command ran, are lost")


@dataclass
class Merge:
    """A merge as the oracle knows it: the tree before and after it, and the session's changes before it."""

    id: str
    session: str
    version: int  # of the session, after the merge
    before: TreeEntries
    after: TreeEntries
    reported: dict[bytes, str]
    view: TreeEntries  # the content of its session
    is_undone: bool = False
    stood: TreeEntries = field(
        default_factory=dict
    )  # the tree before and after its last undo; what an earlier one restored, before that
    undone: TreeEntries = field(default_factory=dict)
    undone_at: int = -1  # the number of the user's actions before that undo
    last_back: frozenset[bytes] = frozenset()  # paths that the last undo restored
    back: frozenset[bytes] = frozenset()  # paths that an undo restored, and no redo changed since
    by_both: frozenset[bytes] = frozenset()  # see Interference.by_both

    def is_back(self, path: bytes) -> bool:
        """Return whether an undo restored a path, or all reported changes below a directory that is not reported itself."""
        below = {one for one in moved(self.before, self.after) if one.startswith(path + b"/") and one in self.reported}
        return path in self.back or (path not in self.reported and bool(below and below <= self.back))

    def redone(self, paths: set[bytes], was: TreeEntries) -> None:
        """Record a redo of some paths: an undo restores what it replaced, with what the user set there since the last undo."""
        for path in paths & moved(self.before, self.after):
            _put(self.before, path, was.get(path))
        self.back -= paths

    def apart(self, met: Interference) -> "Merge":
        """Return the merge without the entries near a path that the user changed while a command ran."""
        before, after, stood, undone = map(met.apart, (self.before, self.after, self.stood, self.undone))
        return replace(self, before=before, after=after, stood=stood, undone=undone)


def check_clean(tree: TreeEntries) -> None:
    """Check that no trace of agent-dev or an overlay is in the tree."""
    for path, one in tree.items():
        demand(b"agent-dev" not in path, f"{path!r} was left in the tree")
        demand(not stat.S_ISCHR(one.type), f"a whiteout was left at {path!r}")
        marks = [name for name, _ in one.attributes if name.startswith("user.overlay.")]
        demand(not marks, f"{path!r} has {marks}")


@dataclass(frozen=True)
class Run:
    """A run of a session's agent: the tree at its start, the agent's final tree, and paths where a merge has applied it."""

    base: TreeEntries
    view: TreeEntries
    merged: set[bytes] = field(default_factory=set)

    @property
    def merged_entries(self) -> Settled:
        return {path: self.view.get(path) for path in self.merged}


def base_of(path: bytes, runs: list[Run]) -> TreeEntry | None:
    """Return the agent's base at a path: at the start of the first run that changed it and is not merged, else of the last."""
    changed = (run.base for run in runs if run.base.get(path) != run.view.get(path) and path not in run.merged)
    return next(changed, runs[-1].base).get(path)


def check_merge(
    trees: tuple[TreeEntries, TreeEntries],
    taken: Mapping[bytes, str],
    view: TreeEntries,
    runs: list[Run],
    by_hand: frozenset[bytes],
    settled: Iterable[Settled] = (),
) -> None:
    """Check that only selected paths changed, and became the agent's version unless the user had changed them.

    `by_hand`: paths that were selected partly, or were conflicts resolved for the agent; `settled`: as in `check_reported`.
    """
    before, after = trees
    for path in moved(before, after):
        is_folder = all(one is None or stat.S_ISDIR(one.type) for one in (before.get(path), after.get(path)))
        is_shown = path in taken or (is_folder and is_near(path, taken)) or path == b"."
        demand(is_shown, f"{path!r} was not selected: {shown(before.get(path))} became {shown(after.get(path))}")
    for path in taken:
        if path in by_hand:
            continue
        is_right = is_landed(after.get(path), view.get(path), before.get(path))
        if all(before.get(path) == run.base.get(path) for run in runs):
            demand(is_right, f"{path!r} was merged: {shown(view.get(path))} became {shown(after.get(path))}")
        elif not is_right or before.get(path) != base_of(path, runs):
            lost = tokens(before.get(path)) - tokens(base_of(path, runs)) - tokens(after.get(path))
            own_content = (*(run.view.get(path) for run in runs), *(some.get(path) for some in settled))
            lost -= set().union(*map(tokens, own_content))  # the agent may have moved the user's content there
            demand(not lost or after.get(path) is None, f"{path!r}: the user's {lost} are lost by a merge")
            own_lost = lost_attributes(base_of(path, runs), before.get(path), after.get(path))
            own_lost -= {attribute for run in runs if path in run.view for attribute in own(run.view[path])}
            demand(not own_lost, f"{path!r}: the user's {own_lost} are lost by a merge")


def check_reported_again(merge: Merge, reported: Mapping[bytes, str], bases: Iterable[TreeEntries]) -> None:
    """Check that after an undo a session lists the same changes as before the merge, except for mode bits 07000.

    `bases`: the tree at each start of the agent.
    """
    missing = {
        path: kind
        for path, kind in merge.reported.items()
        if reported.get(path) != kind
        and not any(is_alike(merge.view.get(path), tree.get(path)) for tree in (merge.before, *bases))
        and not (kind == "metadata" and is_folder(one := merge.view.get(path)) and one.mode & 0o7000)
    }
    more = {path: kind for path, kind in reported.items() if path not in merge.reported}
    demand(not missing and not more, f"after the undo the session does not list {missing}, and also lists {more}")


def is_folder_kept(left: TreeEntry | None, was: TreeEntry | None, now: TreeEntry | None) -> bool:
    """Return whether a directory still has the attributes that the user set after a merge."""
    if left is None or was is None or now is None or not stat.S_ISDIR(was.type) or now.type != was.type:
        return False
    return {*was.attributes} - {*left.attributes} <= {*now.attributes} and was.mode in (left.mode, now.mode)


def check_undo(merge: Merge, before: TreeEntries, after: TreeEntries, left: frozenset[bytes], kept: frozenset[bytes]) -> None:
    """Check that an undo restored what only the merge had changed, and changed nothing else."""
    changed = moved(merge.before, merge.after)
    for path in moved(before, after):
        is_meant = path in changed or path in kept
        demand(is_meant, f"undo changed {path!r}, not the merge: {shown(before.get(path))} became {shown(after.get(path))}")
    for path in changed:
        was, now = before.get(path), after.get(path)
        if path in kept:
            lost = tokens(was) - tokens(merge.after.get(path)) - tokens(now)
            demand(not lost, f"{path!r}: the user's {lost} are lost by an undo")
        elif was == merge.before.get(path) or merge.is_back(path):
            demand(now == was, f"undo: {path!r} was back already, {shown(was)}, and is {shown(now)}")
        elif was != merge.after.get(path):
            is_kept = now == was or is_folder_kept(merge.after.get(path), was, now)
            demand(is_kept, f"undo: the user's {path!r}, {shown(was)}, became {shown(now)}")
        elif now != merge.before.get(path) and not (path in merge.by_both and now == was):
            reported = is_near(path, left) or (is_folder(was) and any(one.startswith(path + b"/") for one in after))  # filled
            demand(
                reported and now == was,
                f"undo: {path!r} was {shown(merge.before.get(path))} before the merge and is {shown(now)} now",
            )


def has_list_of(found: TreeEntry | None, wanted: TreeEntry | None, was: TreeEntry | None) -> bool:
    """Return whether an entry is the wanted one with the ACL of the entry that it replaced."""
    if found is None or wanted is None or was is None or not has_list(found):
        return False
    lists = [[row for row in one.attributes if row[0].startswith(_LIST)] for one in (found, was)]
    return lists[0] == lists[1] and (found.type, found.content, own(found)) == (wanted.type, wanted.content, own(wanted))


def is_folder_redone(merge: Merge, path: bytes, was: TreeEntry | None, now: TreeEntry | None) -> bool:
    """Return whether a directory is the merge's with the attributes that the user set since the undo."""
    undone, after = merge.undone.get(path), merge.after.get(path)
    if not (is_folder(undone) and is_folder(was) and is_folder(now) and is_folder(after)):
        return False
    added = {*was.attributes} - {*undone.attributes}
    return now.mode == after.mode and {*now.attributes} == {*after.attributes} | added


def check_redo(merge: Merge, before: TreeEntries, after: TreeEntries, left: frozenset[bytes]) -> None:
    """Check that a redo restored the merge's result, or the state before its undo, and changed nothing else."""
    changed = moved(merge.before, merge.after)
    for path in moved(before, after):
        demand(path in changed, f"redo changed {path!r}, which the merge had not: {shown(before.get(path))}")
        is_right = after.get(path) in (merge.after.get(path), merge.stood.get(path))
        is_right = is_right or has_list_of(after.get(path), merge.after.get(path), before.get(path))
        is_right = is_right or is_folder_redone(merge, path, before.get(path), after.get(path))
        demand(is_right, f"redo: {path!r} is {shown(after.get(path))}, was {shown(merge.after.get(path))} after the merge")
    for path in changed:
        was, now = before.get(path), after.get(path)
        is_users = was not in (merge.before.get(path), merge.after.get(path))
        if is_users and was != merge.undone.get(path):
            is_kept = now == was or is_folder_redone(merge, path, was, now)
            demand(is_kept, f"redo: the user's {path!r}, {shown(was)}, became {shown(now)}")
        elif now not in (merge.after.get(path), merge.stood.get(path)) and not has_list_of(now, merge.after.get(path), was):
            reported = is_near(path, left) or path not in merge.back  # a redo skips paths that are still applied
            demand(reported and now == was, f"redo: {path!r} is {shown(now)}, and that was not reported")


def is_emptied(path: bytes, base: TreeEntries, present: AbstractSet[bytes]) -> bool:
    """Return whether a path was a directory with files, and none of them is among the present ones."""
    inside = [other for other, one in base.items() if other.startswith(path + b"/") and not is_folder(one)]
    return bool(inside) and present.isdisjoint(inside)


def check_reported(
    reported: Mapping[bytes, str],
    trees: tuple[TreeEntries, TreeEntries],
    bases: Iterable[TreeEntries],
    settled: Iterable[Settled],
) -> None:
    """Check that every difference between session and tree is listed as a change, unless only the user changed the tree.

    `trees`: of the session and the real one; `bases`: the tree at each start of the agent; `settled`: the agent's changes that
    the user discarded or merged since.
    """
    view, real = trees
    bases, settled = tuple(bases), tuple(settled)
    present = real.keys() - {path for some in settled for path, one in some.items() if one is None}
    for path in {*view, *real} - {b"."}:
        one, other = view.get(path), real.get(path)
        if is_alike(one, other) or is_near(path, reported):
            continue
        if one is None and any(is_emptied(path, base, present) for base in bases):
            continue  # no change of its own: the files in it are, and the tree does not have them, or the user's own
        earlier = [*(base.get(path) for base in bases), *(some[path] for some in settled if path in some)]
        if any(is_alike(one, was) or is_held(one, was, other) for was in earlier):
            continue  # the agent left it unchanged, or never saw it, or the tree has it
        if is_folder(one) and is_folder(other) and not any(map(is_folder, earlier)):
            continue  # of two new directories the user's stays (merge/decision)
        raise Violation(f"{path!r} is {shown(one)} in the session and {shown(other)} in the tree, and no change is listed there")
