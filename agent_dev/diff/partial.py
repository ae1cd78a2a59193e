"""Which blocks of a change, and which single lines inside a block, are chosen; and the bytes that a choice leaves."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from agent_dev.diff.hunks import Block, blocks, is_diffable, joined, line_end, lines


class WrongChoice(ValueError):
    """A choice names a block or a line that is not in the change."""


class Side(StrEnum):
    """Which text a line belongs to: one that goes, or one that comes."""

    OLD = "old"
    NEW = "new"


class State(StrEnum):
    """How much of a block is chosen."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Choice:
    """What is chosen of one change: whole blocks by index, and single lines of other blocks by number, all from 0.

    `old` are lines of the text before that go, `new` lines of the text after that come. What is not named stays as it was.
    `mode`: the new mode and attributes are taken too, where they changed.
    """

    blocks: frozenset[int] = frozenset()
    old: frozenset[int] = frozenset()
    new: frozenset[int] = frozenset()
    mode: bool = True

    @property
    def has_lines(self) -> bool:
        """Whether any line is chosen."""
        return bool(self.blocks or self.old or self.new)


NOTHING = Choice()
_EMPTY: frozenset[int] = frozenset()


def everything(found: tuple[Block, ...]) -> Choice:
    """Choose every block."""
    return Choice(frozenset(range(len(found))))


def state(choice: Choice, found: tuple[Block, ...], index: int) -> State:
    """Say how much of block `index` is chosen."""
    if index in choice.blocks:
        return State.ALL
    old, new = _chosen(choice, found[index])
    if not old and not new:
        return State.NONE
    return State.ALL if len(old) == found[index].old_lines and len(new) == found[index].new_lines else State.SOME


def is_chosen(choice: Choice, found: tuple[Block, ...], side: Side, number: int) -> bool:
    """Whether one line is chosen, by itself or with its block. Raises WrongChoice for a line that is in no block."""
    lone = choice.old if side is Side.OLD else choice.new
    return number in lone or block_of(found, side, number) in choice.blocks


def toggle_block(choice: Choice, found: tuple[Block, ...], index: int) -> Choice:
    """Choose a block whole, or leave it where it was chosen whole."""
    rest = _without(choice, found[index], index)
    if state(choice, found, index) is State.ALL:
        return rest
    return replace(rest, blocks=rest.blocks | {index})


def toggle_line(choice: Choice, found: tuple[Block, ...], side: Side, number: int) -> Choice:
    """Choose one line, or leave it; a block whose every line is chosen is chosen whole. Raises WrongChoice."""
    index = block_of(found, side, number)
    block = found[index]
    old, new = _all_lines(block) if index in choice.blocks else _chosen(choice, block)
    if side is Side.OLD:
        old ^= {number}
    else:
        new ^= {number}
    return with_lines(_without(choice, block, index), found, old, new)


def with_lines(choice: Choice, found: tuple[Block, ...], old: frozenset[int], new: frozenset[int]) -> Choice:
    """Choose these lines too; a block whose every line is chosen is then chosen whole. Raises WrongChoice."""
    touched = {block_of(found, Side.OLD, number) for number in old} | {block_of(found, Side.NEW, number) for number in new}
    whole, lone_old, lone_new = set(choice.blocks), set(choice.old | old), set(choice.new | new)
    for index in touched:
        olds, news = _all_lines(found[index])
        if index in whole or (olds <= lone_old and news <= lone_new):
            whole.add(index)
            lone_old -= olds
            lone_new -= news
    return replace(choice, blocks=frozenset(whole), old=frozenset(lone_old), new=frozenset(lone_new))


def block_of(found: tuple[Block, ...], side: Side, number: int) -> int:
    """Return the index of the block that holds a line. Raises WrongChoice when none does."""
    low, high = 0, len(found)
    while low < high:
        middle = (low + high) // 2
        end = found[middle].old_end if side is Side.OLD else found[middle].new_end
        low, high = (middle + 1, high) if end <= number else (low, middle)
    if low < len(found) and number >= (found[low].old_start if side is Side.OLD else found[low].new_start):
        return low
    raise WrongChoice(f"{side} line {number + 1} is not changed")


def apply(before: bytes, after: bytes, choice: Choice) -> bytes:
    """Return `before` with what is chosen of the way to `after`.

    Inside a block the k-th old line, where it stays, stands before the k-th new one, where it is chosen: part of a
    replacement keeps the order in which one line takes another's place. A line without a line end gets one when another
    comes behind it. Past `blocks.LARGEST` a file is one block without lines. Raises WrongChoice.
    """
    found = blocks(before, after)
    _check(choice, found, has_lines=is_diffable(before, after))
    if choice.blocks == frozenset(range(len(found))):
        return after
    if not choice.has_lines:
        return before
    old, new = lines(before), lines(after)
    pieces: list[bytes] = []
    at = 0
    for index, block in enumerate(found):
        pieces += old[at : block.old_start]
        pieces += new[block.new_start : block.new_end] if index in choice.blocks else _part(block, old, new, choice)
        at = block.old_end
    return joined(pieces + old[at:], line_end(before, after))


def _part(block: Block, old: list[bytes], new: list[bytes], choice: Choice) -> Iterator[bytes]:
    for step in range(max(block.old_lines, block.new_lines)):
        if step < block.old_lines and block.old_start + step not in choice.old:
            yield old[block.old_start + step]
        if step < block.new_lines and block.new_start + step in choice.new:
            yield new[block.new_start + step]


def _check(choice: Choice, found: tuple[Block, ...], *, has_lines: bool) -> None:
    strange = sorted(choice.blocks - frozenset(range(len(found))))
    if strange:
        raise WrongChoice(f"there is no block {strange[0] + 1}, only {len(found)}")
    if not has_lines and (choice.old or choice.new):
        raise WrongChoice("the file is too large to choose lines of it")
    for side, numbers in ((Side.OLD, choice.old), (Side.NEW, choice.new)):
        for number in numbers:
            block_of(found, side, number)


def _all_lines(block: Block) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(range(block.old_start, block.old_end)), frozenset(range(block.new_start, block.new_end))


def _chosen(choice: Choice, block: Block) -> tuple[frozenset[int], frozenset[int]]:
    """Return the lone lines of a block that are chosen."""
    if not choice.old and not choice.new:
        return _EMPTY, _EMPTY
    old, new = _all_lines(block)
    return choice.old & old, choice.new & new


def _without(choice: Choice, block: Block, index: int) -> Choice:
    old, new = _chosen(choice, block)
    return replace(choice, blocks=choice.blocks - {index}, old=choice.old - old, new=choice.new - new)
