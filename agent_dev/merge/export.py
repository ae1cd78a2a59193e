"""Export selected changes to a directory of files or to a patch."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from agent_dev.errors import CannotMerge, UsageError
from agent_dev.fs import rmtree
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.merge import patches
from agent_dev.merge.review import Review
from agent_dev.merge_engine.merge_plan import MakeDirectory, MergePlan, PutEntry, RemoveEntry, SetMode
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay import patch_write
from agent_dev.quick_dataclass import replace

SUFFIXES = (".patch", ".diff")


def export(review: Review, planned: MergePlan, target: str, name: Callable[[Key], bytes]) -> tuple[Key, ...]:
    """Write a plan's results to a new file that ends in .patch or .diff, else to a new directory. The real tree is only read.

    `name` returns a key's relative path. Returns the keys that were not exported: deletions in a directory, and what git's patch
    format cannot represent. Raises UsageError if the target exists, or CannotMerge if it cannot be written; nothing of it stays.
    """
    is_empty = os.path.isdir(target) and not os.listdir(target)
    if os.path.lexists(target) and not is_empty:
        raise UsageError(message=f"{target} already exists", hint="use a path that does not exist")
    if target.endswith(SUFFIXES):
        file = open(target, "xb")  # noqa: SIM115  (closed below, but a failure to create it removes nothing)
        with _removed_on_failure(target, lambda: os.unlink(target)), file:
            return tuple(
                step.key
                for step in planned.steps
                if isinstance(step, SetMode)
                or (
                    isinstance(step, PutEntry | RemoveEntry)
                    and not _write_patch(review, step, name, file)
                    and not _is_implied(step, planned)
                )
            )
    os.makedirs(target, exist_ok=True)
    with _removed_on_failure(target, lambda: _remove_directory(target, is_kept=is_empty)):
        for step in planned.steps:
            if isinstance(step, PutEntry | MakeDirectory):
                _write(review, step, os.path.join(os.fsencode(target), name(step.key)))
    return tuple(step.key for step in planned.steps if isinstance(step, RemoveEntry))


@contextmanager
def _removed_on_failure(target: str, remove: Callable[[], None]) -> Iterator[None]:
    """Remove what a failed or interrupted export has written. Raises CannotMerge for an OSError."""
    try:
        yield
    except BaseException as error:
        remove()
        if isinstance(error, OSError):
            raise CannotMerge(path=target, reason=f"{error.strerror}; nothing was exported") from None
        raise


def _remove_directory(path: str, *, is_kept: bool) -> None:
    for name in os.listdir(path):
        rmtree.remove_tree(f"{path}/{name}")
    if not is_kept:
        os.rmdir(path)


def _write(review: Review, step: PutEntry | MakeDirectory, path: bytes) -> None:
    folder, base = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    if isinstance(step, MakeDirectory):
        os.makedirs(path, exist_ok=True)
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    target_stage = Stage.in_directory(fd)
    os.close(fd)
    try:
        slot = os.fsdecode(base)
        if step.content is not None:
            target_stage.write(slot, step.content, step.after)
        else:
            target_stage.copy(slot, review.upper_trees[step.key.root], step.key.path, step.after)
    finally:
        target_stage.close()


def _write_patch(review: Review, step: PutEntry | RemoveEntry, name: Callable[[Key], bytes], file: BinaryIO) -> bool:
    """Write one change as a patch against the real tree; return whether the patch is complete."""
    after = step.after if isinstance(step, PutEntry) else None
    change = replace(review.changes.by_key()[step.key], before=step.expected, after=after)
    path, old, new = name(step.key), _now(review, step), _result(review, step)
    file.write(patch_write.change_patch(change, path, old, new, patches.patch_format_for(review.record, is_exact=True)))
    return not patch_write.omitted_part(change, path, old, new)


def _is_implied(step: PutEntry | RemoveEntry, planned: MergePlan) -> bool:
    """Return whether a directory has files in the plan, whose patches create it."""
    below = step.key.path + b"/"
    is_folder = isinstance(step, PutEntry) and step.after.type is FileType.DIRECTORY
    return is_folder and any(
        isinstance(one, PutEntry) and one.key.root == step.key.root and one.key.path.startswith(below) for one in planned.steps
    )


def _now(review: Review, step: PutEntry | RemoveEntry) -> bytes | None:
    if step.expected is None:
        return None
    return _bytes(review.real_trees[step.key.root].read(step.key.path, patch_write.MAX_SIDE_SIZE), step.expected)


def _result(review: Review, step: PutEntry | RemoveEntry) -> bytes | None:
    if isinstance(step, RemoveEntry):
        return None
    if step.content is not None:
        return step.content
    return _bytes(review.content(step.key, patch_write.MAX_SIDE_SIZE)[1], step.after)


def _bytes(data: bytes | None, entry: Entry) -> bytes | None:
    return entry.target if entry.type is FileType.SYMLINK else data
