"""Select changes by options: all clean changes, paths, hunks of a file or of a patch; and resolve conflicts."""

import os
from typing import TYPE_CHECKING

from agent_dev.diff import hunks
from agent_dev.diff.binary import is_binary
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.diff.partial_selection import LineSelection, select_all
from agent_dev.errors import UsageError
from agent_dev.fs.entry import FileType, Key
from agent_dev.merge import reconcile
from agent_dev.merge.review import Review, inaccessible_directory
from agent_dev.overlay import selection
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, has_selectable_mode
from agent_dev.overlay.selection import Selection
from agent_dev.quick_dataclass import dataclass, replace

if TYPE_CHECKING:
    from agent_dev.diff.patch_parser import FilePatch


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """Selection options. `parts`: hunk numbers of files, from 1. `resolutions`: resolutions of conflicts at paths.

    `allowed`: risk rules whose changes `select_all` includes.
    """

    paths: tuple[Key, ...] = ()
    parts: tuple[tuple[Key, frozenset[int]], ...] = ()
    patch: bytes | None = None
    select_all: bool = False
    include_risky: bool = False
    resolutions: tuple[tuple[Key, ConflictSide | bytes], ...] = ()
    allowed: frozenset[str] = frozenset()


def select_requested(review: Review, request: SelectionRequest) -> tuple[Selection, frozenset[Key]]:
    """Return the selection, and all requested keys, including those that cannot be merged. Conflicts are resolved first.

    Raises UsageError for a hunk or a resolution that does not exist.
    """
    for key, answer in request.resolutions:
        _resolve(review, key, answer)
    if request.select_all and not request.include_risky:
        review.assess()
    selected = (
        selection.select_all(review.changes, risky=request.include_risky, allowed=request.allowed)
        if request.select_all
        else selection.EMPTY_SELECTION
    )
    requested = (
        {change.key for change in review.changes.changes if _is_requested(change, request)} if request.select_all else set()
    )
    for path in (*request.paths, *(key for key, _ in request.resolutions)):
        below = frozenset(change.key for change in review.changes.below(path.root, path.path))
        requested |= below
        selected = selection.select(selected, below, review.changes)
    for key, numbers in request.parts:
        requested.add(key)
        selected = selection.select_part(selected, key, _hunk_selection(review, key, numbers), review.changes)
    if request.patch is not None:
        selected, more = _select_patch(review, selected, request.patch)
        requested |= more
    return selected, frozenset(requested)


def _is_requested(change: Change, request: SelectionRequest) -> bool:
    """Return whether `--all` requests a change, including a conflicting one."""
    return not change.is_ignored and (request.include_risky or selection.is_allowed(change, request.allowed))


# Parts of files


def texts_to_diff(review: Review, change: Change) -> tuple[bytes, bytes]:
    """Return the texts for counting hunks. Raises UsageError for a change without lines."""
    before, after = review.content(change.key)
    before = b"" if change.before is None else before
    after = b"" if change.after is None else after
    has_lines = change.kind not in (ChangeKind.RETYPED, ChangeKind.METADATA) and change.type is FileType.FILE
    if not has_lines or before is None or after is None or is_binary(before) or is_binary(after):
        raise UsageError(message=f"{_shown(change.key)} has no hunks to select from", hint="select the whole file")
    return before, after


def _shown(key: Key) -> str:
    return key.path.decode("utf-8", "replace")


def _hunk_selection(review: Review, key: Key, numbers: frozenset[int]) -> LineSelection:
    change = review.find_change(key)
    found = hunks.find_hunks(*texts_to_diff(review, change))
    wrong = sorted(number for number in numbers if not 1 <= number <= len(found))
    if wrong:
        hint = f"agent-dev diff --hunks shows the numbers, 1 to {len(found)}"
        raise UsageError(message=f"{_shown(key)} has no hunk {wrong[0]}", hint=hint)
    return LineSelection(frozenset(number - 1 for number in numbers), mode=not has_selectable_mode(change))


def _select_patch(review: Review, selected: Selection, text: bytes) -> tuple[Selection, frozenset[Key]]:
    """Select exactly the hunks of a patch. Raises UsageError, InvalidPatch or PatchDoesNotApply."""
    from agent_dev.diff import patch_parser  # rare

    table = review.changes.by_key()
    requested = set()
    patches = patch_parser.parse_patch(text)
    if text.strip() and not patches:
        raise UsageError(message="--patch: the file contains no patch", hint="agent-dev diff writes one")
    for one in patches:
        keys = [_key_of(path, review) for path in (one.renamed_from, one.path) if path]
        for key in keys:
            if key not in table:
                message = f"the patch changes {_shown(key)}, but the agent did not"
                raise UsageError(message=message, hint="agent-dev diff shows the agent's changes")
        requested.update(keys)
        key = keys[-1]
        is_whole_rename = key in review.changes.renames and review.changes.renames[key] == keys[0]
        if (len(keys) > 1 and not is_whole_rename) or (len(keys) == 1 and key in review.changes.renames):
            _require_whole(review, one, keys)  # the patch and the review pair the files differently
            selected = selection.select(selected, frozenset(keys), review.changes)
            continue
        choice = _patch_selection(review, one, review.find_change(key))
        selected = (
            selection.select(selected, frozenset((key,)), review.changes)
            if choice is None
            else selection.select_part(selected, key, choice, review.changes)
        )
    return selected, frozenset(requested)


def _patch_selection(review: Review, one: "FilePatch", change: Change) -> LineSelection | None:
    """Return the part of a change that a patch contains; None for all of it. Raises UsageError or PatchDoesNotApply."""
    from agent_dev.overlay import select_by_patch  # rare

    has_parts = change.kind in (ChangeKind.EDITED, ChangeKind.ADDED, ChangeKind.RENAMED) and change.type is FileType.FILE
    has_mode = has_selectable_mode(change)
    is_mode_alone = has_mode and change.kind is ChangeKind.EDITED and one.new_mode is not None and not one.is_binary
    if not has_parts or not (one.hunks or is_mode_alone):
        return None
    before, after = texts_to_diff(review, change)
    with_mode = not has_mode or _has_mode_of(one, change)
    choice = replace(select_by_patch.select_hunks(one, before, after), mode=with_mode)
    return None if choice == select_all(hunks.find_hunks(before, after)) else choice


def _has_mode_of(one: "FilePatch", change: Change) -> bool:
    """Return whether a patch names the agent's mode; of a mode, git records whether the owner can execute the file."""
    executable, after = 0o100, change.after
    return one.new_mode is not None and after is not None and not (one.new_mode ^ after.mode) & executable


def _require_whole(review: Review, one: "FilePatch", keys: list[Key]) -> None:
    """Raise UsageError for a patch with only a part of the change of a file that it renames, or that was renamed."""
    from agent_dev.overlay import select_by_patch  # rare

    if not one.hunks:
        return
    new = keys[-1]
    before = review.content(keys[0])[0] if len(keys) > 1 else None
    before, after = before or b"", review.content(new)[1] or b""
    if select_by_patch.select_hunks(one, before, after) != select_all(hunks.find_hunks(before, after)):
        raise UsageError(
            message=f"{_shown(new)} was renamed and cannot be selected in part", hint="agent-dev diff shows the rename"
        )


def _key_of(path: bytes, review: Review) -> Key:
    """Return the key of a patch's path: relative to the first root, or absolute below another root."""
    for number, tree in enumerate(review.real_trees[1:], 1):
        root = os.fsencode(tree.path).lstrip(b"/") + b"/"
        if path.startswith(root):
            return Key(number, path[len(root) :])
    return Key(0, path)


# Conflicts


def _resolve(review: Review, path: Key, answer: ConflictSide | bytes) -> None:
    """Resolve the conflicts at a path and below it in the review. Raises UsageError if there are none or it is not possible."""
    found = [change for change in review.changes.below(path.root, path.path) if change.conflict]
    if not found:
        raise UsageError(message=f"{_shown(path)} has no conflict", hint="agent-dev status marks conflicts with ✗")
    resolved: dict[Key, Change] = {}
    for change in found:
        one = review.reconciliations.get(change.key)
        resolution = reconcile.resolve_conflict(change, one, answer) if one is not None else None
        if resolution is None or resolution.change is None:
            raise not_resolvable(review, change)
        review.reconciliations[change.key] = resolution
        resolved[change.key] = resolution.change
    review.changes = _with(review.changes, resolved)


def possible_sides(review: Review, key: Key) -> tuple[str, ...]:
    """Return the sides that can resolve a conflict; none if the change cannot be compared with the real tree."""
    one = review.reconciliations.get(key)
    if one is None:
        return ()
    return (ConflictSide.YOURS, ConflictSide.AGENT) if one.merged is None else (*ConflictSide, "edit")


def not_resolvable(review: Review, change: Change) -> UsageError:
    """Return the error for a resolution that a conflict does not allow."""
    message = f"{_shown(change.key)}: {change.conflict}"
    if possible_sides(review, change.key):
        return UsageError(message=f"{message}; only one side can be applied", hint="resolve it with yours or agent")
    return UsageError(message=message, hint=resolution_hint(review, change.key))


def resolution_hint(review: Review, key: Key) -> str:
    """Return what the user can do about a conflict that no side resolves."""
    if closed := inaccessible_directory(review.real_trees[key.root], key.path):
        return f"chmod u+rwx {_shown(Key(key.root, closed))}, then run agent-dev merge"
    folder = Key(key.root, key.path.rpartition(b"/")[0])
    found = review.real_trees[key.root].entry_at(folder.path, attributes=False) if folder.path else None
    if folder.path and (found is None or found.type is not FileType.DIRECTORY):
        return f"make {_shown(folder)} a directory again, then run agent-dev merge"
    return f"agent-dev diff {_shown(key)} shows the agent's version"


def _with(changes: ChangeSet, resolved: dict[Key, Change]) -> ChangeSet:
    return replace(changes, changes=tuple(resolved.get(change.key, change) for change in changes.changes))
