"""What flags choose: everything clean, paths, blocks of a file, the hunks of a patch; and how conflicts are resolved by them."""

import os
from dataclasses import dataclass, replace

from agent_dev.diff import hunks as blocks
from agent_dev.diff.merge3 import Side
from agent_dev.diff.partial import Choice, everything
from agent_dev.errors import UsageError
from agent_dev.merge import reconcile as fit
from agent_dev.merge.review import Review
from agent_dev.overlay import selection
from agent_dev.overlay.changes import Change, ChangeSet, FileType, Key, Kind
from agent_dev.overlay.selection import Selection


@dataclass(frozen=True, slots=True)
class Wish:
    """What flags ask for. `parts`: of files, the blocks by number, from 1. `resolve`: how conflicts at paths are settled."""

    paths: tuple[Key, ...] = ()
    parts: tuple[tuple[Key, frozenset[int]], ...] = ()
    patch: bytes | None = None
    is_everything: bool = False
    with_risky: bool = False
    resolve: tuple[tuple[Key, Side | bytes], ...] = ()


def choose(review: Review, wish: Wish) -> tuple[Selection, frozenset[Key]]:
    """Return what is chosen, and what was asked for, whether it can be merged or not. Conflicts are resolved first.

    Raises UsageError for a block, a hunk or a resolution that there is not.
    """
    for key, how in wish.resolve:
        _resolve(review, key, how)
    chosen = selection.all_of(review.changes, risky=wish.with_risky) if wish.is_everything else selection.NOTHING
    asked = {c.key for c in review.changes.changes if _is_meant(c, risky=wish.with_risky)} if wish.is_everything else set()
    for path in (*wish.paths, *(key for key, _ in wish.resolve)):
        below = frozenset(change.key for change in review.changes.below(path.root, path.path))
        asked |= below
        chosen = selection.take(chosen, below, review.changes)
    for key, numbers in wish.parts:
        asked.add(key)
        chosen = selection.take_part(chosen, key, _blocks(review, key, numbers), review.changes)
    if wish.patch is not None:
        chosen, more = _patch(review, chosen, wish.patch)
        asked |= more
    return chosen, frozenset(asked)


def _is_meant(change: Change, *, risky: bool) -> bool:
    """Whether `--all` asks for a change, in conflict or not."""
    return not change.ignored and (risky or not change.risks)


# Parts


def sides(review: Review, change: Change) -> tuple[bytes, bytes]:
    """Return the texts between which blocks are counted. Raises UsageError for a change that has no lines."""
    before, after = review.content(change.key)
    before = b"" if change.before is None else before
    after = b"" if change.after is None else after
    has_lines = change.kind in (Kind.EDITED, Kind.ADDED, Kind.DELETED) and change.type is FileType.FILE
    if not has_lines or before is None or after is None or blocks.is_binary(before) or blocks.is_binary(after):
        raise UsageError(message=f"{_shown(change.key)} has no blocks to choose from", hint="take it whole")
    return before, after


def _shown(key: Key) -> str:
    return key.path.decode("utf-8", "replace")


def _blocks(review: Review, key: Key, numbers: frozenset[int]) -> Choice:
    found = blocks.blocks(*sides(review, review.changes.by_key()[key]))
    wrong = sorted(number for number in numbers if not 1 <= number <= len(found))
    if wrong:
        hint = f"agent-dev diff --blocks shows their numbers, 1 to {len(found)}"
        raise UsageError(message=f"{_shown(key)} has no block {wrong[0]}", hint=hint)
    return Choice(frozenset(number - 1 for number in numbers))


def _patch(review: Review, chosen: Selection, text: bytes) -> tuple[Selection, frozenset[Key]]:
    """Choose exactly the hunks of a patch. Raises UsageError, BadPatch or PatchDoesNotFit."""
    from agent_dev.diff import patch_parser as patch  # rare

    table = review.changes.by_key()
    asked = set()
    found = patch.parse(text)
    if text.strip() and not found:
        raise UsageError(message="--patch: there is no patch of any file in it", hint="agent-dev diff prints one")
    for one in found:
        key = _named(one.path, review)
        if key not in table:
            raise UsageError(
                message=f"the patch changes {_shown(key)}, which the agent did not", hint="agent-dev diff shows what it did"
            )
        asked.add(key)
        change = table[key]
        if not one.hunks or change.kind is Kind.DELETED or change.type is not FileType.FILE:
            chosen = selection.take(chosen, frozenset((key,)), review.changes)
            continue
        before, after = sides(review, change)
        choice = patch.choose(one, before, after)
        is_whole = choice == everything(blocks.blocks(before, after))
        one_key = frozenset((key,))
        chosen = (
            selection.take(chosen, one_key, review.changes)
            if is_whole
            else selection.take_part(chosen, key, choice, review.changes)
        )
    return chosen, frozenset(asked)


def _named(path: bytes, review: Review) -> Key:
    """Return the key that a patch's path means: below the first root, else absolute below another."""
    for number, tree in enumerate(review.reals[1:], 1):
        root = os.fsencode(tree.path).lstrip(b"/") + b"/"
        if path.startswith(root):
            return Key(number, path[len(root) :])
    return Key(0, path)


# Conflicts


def _resolve(review: Review, path: Key, how: Side | bytes) -> None:
    """Settle the conflicts at a path and below it, in the review. Raises UsageError where there is none, or not that way."""
    found = [change for change in review.changes.below(path.root, path.path) if change.conflict]
    if not found:
        raise UsageError(message=f"{_shown(path)} is in no conflict", hint="agent-dev status marks those that are with ✗")
    settled: dict[Key, Change] = {}
    for change in found:
        one = review.fits.get(change.key)
        made = fit.resolved(change, one, how) if one is not None else None
        if made is None or made.change is None:
            why = "only lines can be taken from both" if one is not None else f"{change.conflict}: make room first"
            raise UsageError(message=f"{_shown(change.key)}: {why}", hint="mine or agent takes one side whole")
        review.fits[change.key] = made
        settled[change.key] = made.change
    review.changes = _with(review.changes, settled)


def _with(changes: ChangeSet, settled: dict[Key, Change]) -> ChangeSet:
    return replace(changes, changes=tuple(settled.get(change.key, change) for change in changes.changes))
