"""Detect directories that were renamed whole: the old one is gone, and most of its renamed files are in one new one."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change

_MIN_FILES = 2

Pair = tuple[Key, Key]  # a new path and its old one


def find_directory_renames(renames: Mapping[Key, Key], is_gone: Callable[[Key], bool]) -> dict[Key, Key]:
    """Return the old path of each renamed directory by its new one, from the renames of files.

    `is_gone`: whether a directory of the base does not exist any more.
    """
    votes: Counter[Pair] = Counter()
    for new, old in renames.items():
        pair = next((pair for pair in _directories(new, old) if is_gone(pair[1])), None)
        if pair is not None:
            votes[pair] += 1
    totals: Counter[Key] = Counter()
    for (_, old_directory), count in votes.items():
        totals[old_directory] += count
    found: dict[Key, Key] = {}
    for (new, old), count in votes.most_common():
        if count >= _MIN_FILES and 2 * count > totals[old] and new not in found:
            found[new] = old
    return found


def _directories(new: Key, old: Key) -> Iterator[Pair]:
    """Yield the directories that differ above the parts that two paths have in common, the topmost first."""
    news, olds = new.path.split(b"/"), old.path.split(b"/")
    most = min(len(news), len(olds))
    same = next((count for count in range(most) if news[-1 - count] != olds[-1 - count]), most)
    for count in range(same, 0, -1):
        if len(olds) > count:
            yield Key(new.root, b"/".join(news[:-count])), Key(old.root, b"/".join(olds[:-count]))


def counterparts(deleted: Iterable[Change], added: Iterable[Change], directories: Mapping[Key, Key]) -> dict[Key, Key]:
    """Return the old path of further files and links of renamed directories, by the new one: those without lines to compare.

    They are at the same place in both directories, and empty or links to the same target.
    """
    gone = {change.key: change.before for change in deleted}
    found = {}
    for change in added:
        old = _old_key(change.key, directories)
        before = gone.get(old) if old is not None else None
        after = change.after
        if old is None or before is None or after is None:
            continue
        if (before.type, before.size, before.target) == (after.type, after.size, after.target):
            found[change.key] = old
    return found


def _old_key(key: Key, directories: Mapping[Key, Key]) -> Key | None:
    """Return the path that a path had before its directory was renamed; None if it was not renamed."""
    directory = renamed_directory(key, directories)
    if directory is None:
        return None
    old = directories[directory]
    rest = key.path[len(directory.path) + 1 :] if directory.path else key.path
    return Key(old.root, old.path + b"/" + rest)


def renamed_directory(key: Key, directories: Mapping[Key, Key]) -> Key | None:
    """Return the renamed directory that contains a path, by its new path; None without one."""
    path = key.path
    while path:
        path = path.rpartition(b"/")[0]
        if (directory := Key(key.root, path)) in directories:
            return directory
    return None


def directory_of(change: Change, directories: Mapping[Key, Key]) -> Key | None:
    """Return the renamed directory with which a file was renamed, by its new path; None for other changes.

    A file whose old path is in conflict belongs to it, too: it is an addition that requires the deletion there.
    """
    old = _old_key(change.key, directories) if directories else None
    if old is None or (old != change.renamed_from and old not in change.requires):
        return None
    return renamed_directory(change.key, directories)
