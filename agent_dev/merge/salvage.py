"""Copy the files of a session with a damaged record out of its upper layers."""

import os

from agent_dev.errors import UsageError
from agent_dev.fs import dir_tree, walk
from agent_dev.fs.entry import FileType
from agent_dev.merge_engine.slots import Stage
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store

_COPIED = (FileType.FILE, FileType.SYMLINK, FileType.DIRECTORY)


@dataclass(frozen=True, slots=True)
class SalvageResult:
    """The number of copied files and links, the paths that the agent deleted, and unreadable paths with the reason."""

    copied: int
    deleted: tuple[str, ...]
    problems: tuple[str, ...]


def salvage(session: store.Session, target: str) -> SalvageResult:
    """Copy the agent's files into a new directory, with one subdirectory per root if there are several.

    Raises UsageError if the target exists.
    """
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise UsageError(message=f"{target} already exists", hint="use a path that does not exist")
    numbers = sorted(int(name) for name in os.listdir(f"{session.folder}/roots") if name.isdigit())
    store.make_uppers_accessible(session, len(numbers))
    os.makedirs(target, exist_ok=True)
    copied, deleted, problems = 0, list[str](), list[str]()
    for number in numbers:
        folder = f"{target}/{number}" if len(numbers) > 1 else target
        os.makedirs(folder, exist_ok=True)
        copied += _copy(session.root(number, "").upper, os.fsencode(folder), deleted, problems)
    return SalvageResult(copied, tuple(deleted), tuple(problems))


def _copy(upper: str, folder: bytes, deleted: list[str], problems: list[str]) -> int:
    count = 0
    tree = dir_tree.Tree(upper, is_ours=True)
    try:
        for found in walk.walk(upper, skip=(b".git",), problems=problems):
            path, base = os.path.split(found.path)
            if found.is_whiteout():
                deleted.append(os.fsdecode(found.path))
            elif found.entry.type in _COPIED:
                parent = os.open(os.path.join(folder, path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                target_stage = Stage.in_directory(parent)
                os.close(parent)
                try:
                    target_stage.copy(os.fsdecode(base), tree, found.path, found.entry)
                    count += found.entry.type is not FileType.DIRECTORY
                except OSError as error:
                    problems.append(f"{os.fsdecode(found.path)}: {error.strerror}")
                finally:
                    target_stage.close()
    finally:
        tree.close()
    return count
