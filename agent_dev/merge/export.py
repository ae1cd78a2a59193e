"""What was chosen, written out for people who bring it home themselves: a directory of files, or a patch."""

import os
from collections.abc import Callable

from agent_dev.diff import hunks as blocks
from agent_dev.errors import UsageError
from agent_dev.merge.review import Review
from agent_dev.merge_engine.merge_plan import MakeFolder, MergePlan, Put, Remove
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay.changes import Entry, FileType, Key

SUFFIXES = (".patch", ".diff")


def export(review: Review, planned: MergePlan, target: str, name: Callable[[Key], bytes]) -> tuple[Key, ...]:
    """Write a plan's results to a new file that ends in .patch or .diff, else to a new directory. The real tree is only read.

    `name` gives a key's relative path. Returns the keys that a directory cannot show: the deletions. Raises UsageError for a
    target that is there already.
    """
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise UsageError(message=f"{target} is there already", hint="--export wants a name that is free")
    if target.endswith(SUFFIXES):
        with open(target, "xb") as file:
            file.writelines(_patch(review, step, name) for step in planned.steps if isinstance(step, Put | Remove))
        return ()
    os.makedirs(target, exist_ok=True)
    for step in planned.steps:
        if isinstance(step, Put | MakeFolder):
            _write(review, step, os.path.join(os.fsencode(target), name(step.key)))
    return tuple(step.key for step in planned.steps if isinstance(step, Remove))


def _write(review: Review, step: Put | MakeFolder, path: bytes) -> None:
    folder, base = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    if isinstance(step, MakeFolder):
        os.makedirs(path, exist_ok=True)
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    into = Stage.within(fd)
    os.close(fd)
    try:
        slot = os.fsdecode(base)
        if step.content is not None:
            into.put(slot, step.content, step.after)
        else:
            into.copy(slot, review.uppers[step.key.root], step.key.path, step.after)
    finally:
        into.close()


def _patch(review: Review, step: Put | Remove, name: Callable[[Key], bytes]) -> bytes:
    """Return one change as a patch against what stands in the real tree now."""
    change = review.changes.by_key()[step.key]
    now = None
    if step.expect is not None:
        now = _bytes(review.reals[step.key.root].read(step.key.path, blocks.LARGEST), step.expect)
    after = None
    if isinstance(step, Put):
        after = step.content if step.content is not None else _bytes(review.content(step.key)[1], step.after)
    return blocks.patch(change, name(step.key), now, after)


def _bytes(data: bytes | None, entry: Entry) -> bytes | None:
    return entry.target if entry.type is FileType.SYMLINK else data
