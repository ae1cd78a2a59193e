"""Detect directories that were renamed as a whole: the old one is gone, and most of its renamed files are in one new one."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from agent_dev.fs.entry import Key
from agent_dev.overlay.changes import Change

_MIN_FILES = 2

Pair = tuple[Key, Key]  # a new path and its old one


def find_directory_renames(renames: Mapping[Key, Key], is_gone: Callable[[Key], bool]) -> dict[Key, Key]:
    """Return the old path of each renamed directory by its new one, from the renames of files.

    `is_gone`: return whether a directory of the base no longer exists.
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
    """Yield the directories of two paths, without the common part at their ends, the topmost first."""
    new_names, old_names = new.path.split(b"/"), old.path.split(b"/")
    shortest = min(len(new_names), len(old_names))
    same = next((count for count in range(shortest) if new_names[-1 - count] != old_names[-1 - count]), shortest)
    for count in range(same, 0, -1):
        if len(old_names) > count:
            yield Key(new.root, b"/".join(new_names[:-count])), Key(old.root, b"/".join(old_names[:-count]))


def counterparts(deleted: Iterable[Change], added: Iterable[Change], directories: Mapping[Key, Key]) -> dict[Key, Key]:
    """Return old paths by new ones of more renamed files: those of renamed directories that have no lines to compare.

    They are at the same path in both directories, and are empty files, or links to the same target.
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
    """Return the new path of the renamed directory with which a file was renamed; None for other changes.

    A file whose old path is in conflict belongs to it, too: it is an addition that requires the deletion there.
    """
    old = _old_key(change.key, directories) if directories else None
    if old is None or (old != change.renamed_from and old not in change.requires):
        return None
    return renamed_directory(change.key, directories)
