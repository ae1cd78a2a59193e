"""Remove merged changes from an upper layer, so that a resumed session sees the real tree instead; restore them after an undo."""

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from agent_dev.fs import dir_tree, durable, walk
from agent_dev.fs.entry import Entry, FileType, WalkedEntry, parents_of
from agent_dev.fs.rmtree import remove_tree
from agent_dev.merge_engine import whole_directories
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.paths import is_under_git
from agent_dev.quick_dataclass import dataclass, replace

_OPAQUE = "user.overlay.opaque"
T = TypeVar("T")


def move_all_aside(upper: dir_tree.Tree, aside: str, skip: tuple[bytes, ...]) -> None:
    """Move everything in an upper aside after a complete merge: one rename per top-level name."""
    target = os.open(aside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(upper.fd):
            if os.fsencode(name) not in skip:
                _make_writable(upper.fd, name)
                _with_write_access(upper.fd, partial(os.rename, name, name, src_dir_fd=upper.fd, dst_dir_fd=target))
    finally:
        os.close(target)
    upper.close_directories()


def _make_writable(folder: int, name: str) -> None:
    """Make a directory writable for its owner: an unwritable one cannot be moved."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & 0o300 != 0o300:
        os.chmod(name, 0o700, dir_fd=folder)


def remove_applied(
    upper: dir_tree.Tree,
    applied: tuple[Change, ...],
    remaining: tuple[Change, ...],
    skip: tuple[bytes, ...],
    *,
    with_git: bool = False,
    unknown: tuple[bytes, ...] = (),
) -> None:
    """Remove applied changes. An opaque directory becomes a plain one, and its remaining deletions become whiteouts.

    `unknown`: deletions that are not listed as changes; they stay.

    Paths under a `.git` are only merged in a restore (`with_git`), else they stay.
    """
    touched = _with_parents(applied)
    for change in sorted(applied, key=lambda one: -one.key.path.count(b"/")):
        if change.kind is not ChangeKind.METADATA or change.after is None or change.type is not FileType.DIRECTORY:
            _remove(upper, change.key.path)
    stays = _with_parents(remaining)
    marks = [one for one in walk.walk(upper.path, skip=skip) if one.is_whiteout() or one.is_opaque()]
    for one in marks:
        if is_under_git(one.path) and not with_git:
            continue
        if one.is_whiteout():
            if one.path not in stays and one.path not in unknown:
                _remove(upper, one.path)
        elif one.path in touched:
            _make_plain(upper, one, remaining)
    # The content of an opaque directory defines what is not deleted: keep all of it.
    opaque = {one.path for one in marks if one.is_opaque() and one.path not in touched}
    _prune(upper, skip, {*unknown, *(change.key.path for change in remaining)}, opaque, with_git=with_git)


@dataclass(frozen=True, slots=True)
class RestoredEntry:
    """An entry that an undo removed from the real tree and restores to the session: a slot's content, or (None) a deletion."""

    path: bytes
    slot: str | None  # "": only a directory's mode
    mode: int = 0  # of a directory
    attributes: tuple[tuple[str, bytes], ...] = ()  # of an existing directory
    is_whole: bool = False  # a directory with its content


def restore_entries(
    upper: dir_tree.Tree, real: dir_tree.Tree, stage: Stage, given: tuple[RestoredEntry, ...], *, is_copied: bool = False
) -> tuple[bytes, ...]:
    """Restore undone changes to an upper; return the paths where the session has another entry by now.

    Directories come first, from the outermost; a deletion is one whiteout at the outermost directory that is deleted completely.
    Slots are emptied, except for directories, unless `is_copied`. No slot is moved before its parent directories are durable,
    because a power cut could lose both; and no copy gets its name before its content is durable.
    """
    ordered = sorted(given, key=lambda one: one.path.count(b"/"))
    folders = [] if is_copied else [one for one in ordered if _is_folder(stage, one)]
    made = {one.path for one in folders}
    rest = [one for one in ordered if one.path not in made]
    kept = [one.path for one in folders if not _restore_entry(upper, real, stage, one, is_copied=False)]
    for one in rest:
        if one.slot and _ensure_parents(upper, real, one.path) and is_copied and upper.entry_at(one.path) is None:
            _copy(upper, stage, one)
    durable.syncfs(upper.fd)
    kept += [one.path for one in rest if not _restore_entry(upper, real, stage, one, is_copied=is_copied)]
    upper.close_directories()
    durable.syncfs(upper.fd)
    return tuple(kept)


def _is_folder(stage: Stage, one: RestoredEntry) -> bool:
    """Return whether only a directory is created or its mode changed."""
    entry = stage.entry_in(one.slot) if one.slot and not one.is_whole else None
    return one.slot == "" or (entry is not None and entry.type is FileType.DIRECTORY)


def _restore_entry(upper: dir_tree.Tree, real: dir_tree.Tree, stage: Stage, one: RestoredEntry, *, is_copied: bool) -> bool:
    """Restore one entry to an upper; return False if the session has another one by now."""
    if one.slot == "":
        _ensure_parents(upper, real, one.path + b"/")
        _restore_mode(upper, one)
    elif one.is_whole:
        _restore_directory(upper, real, stage, one)
    elif not _ensure_parents(upper, real, one.path) or upper.entry_at(one.path, attributes=False) is not None:
        return _restore_metadata(upper, real, stage, one) or _is_already_restored(upper, stage, one)
    elif one.slot is None:
        _whiteout(upper, one.path)
    else:
        _restore_file(upper, stage, one, is_copied=is_copied)
    return True


def move_to_slot(upper: dir_tree.Tree, stage: Stage, path: bytes, slot: str, entry: Entry) -> str:
    """Move an entry from an upper into a slot; return a file's digest. Raises OSError."""
    folder, _, name = path.rpartition(b"/")
    parent = upper.directory(folder)
    _with_write_access(parent, partial(durable.rename_new, parent, name, stage.fd, slot.encode()))
    return stage.clean_adopted(slot, entry)


def move_directory_to_slot(upper: dir_tree.Tree, stage: Stage, path: bytes, slot: str) -> None:
    """Move a directory with its content from an upper into a slot. Raises OSError."""
    folder, _, name = path.rpartition(b"/")
    parent = upper.directory(folder)
    _with_write_access(parent, partial(durable.rename_new, parent, name, stage.fd, slot.encode()))
    upper.close_directories()


def _restore_directory(upper: dir_tree.Tree, real: dir_tree.Tree, stage: Stage, one: RestoredEntry) -> None:
    """Move a directory into an upper; if the session has one there by now, move the content that nothing blocks."""
    slot = one.slot or ""
    if stage.entry_in(slot) is None or move_from_slot(upper, real, stage, one.path, slot):
        return
    found = upper.entry_at(one.path)
    if found is not None and found.type is FileType.DIRECTORY:
        folder, _, name = one.path.rpartition(b"/")
        whole_directories.move_contents(stage.fd, slot.encode(), upper.directory(folder), name)


def move_from_slot(upper: dir_tree.Tree, real: dir_tree.Tree, stage: Stage, path: bytes, slot: str) -> bool:
    """Move a slot's entry into an upper; return False if the session has another one by now."""
    folder, _, name = path.rpartition(b"/")
    if not _ensure_parents(upper, real, path) or upper.entry_at(path, attributes=False) is not None:
        return False
    parent = upper.directory(folder)
    _with_write_access(parent, partial(durable.rename_new, stage.fd, slot.encode(), parent, name))
    return True


def _ensure_parents(upper: dir_tree.Tree, real: dir_tree.Tree, path: bytes) -> bool:
    """Create the directories above a path like the real ones; return whether it can be reached."""
    for folder in parents_of(path):
        found = upper.entry_at(folder, attributes=False)
        if found is None:
            real_entry = real.entry_at(folder)
            above, _, name = folder.rpartition(b"/")
            parent = upper.directory(above)
            is_folder = real_entry is not None and real_entry.type is FileType.DIRECTORY
            entry = real_entry if real_entry is not None and is_folder else Entry(FileType.DIRECTORY, 0o755)
            _with_write_access(parent, partial(_make_directory, name, parent, entry))
        elif found.type is not FileType.DIRECTORY:
            return False
    return True


def _make_directory(name: bytes, parent: int, like: Entry) -> None:
    """Create a directory that has its mode and attributes when it gets its name.

    After a crash, it is then not mistaken for the agent's.
    """
    temporary = b".agent-dev-new"
    try:
        durable.rmdir(temporary, parent)
    except FileNotFoundError:
        pass
    except OSError:
        remove_tree(f"/proc/self/fd/{parent}/{temporary.decode()}")  # a power cut undid the rename but not its content
    durable.mkdir(temporary, parent, 0o700 if like.attributes else like.mode)
    if like.attributes:
        fd = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            for attribute, value in like.attributes:
                durable.set_attribute(fd, attribute, value)
            durable.chmod(fd, like.mode)
        finally:
            os.close(fd)
    durable.rename_new(parent, temporary, parent, name)


def _restore_file(upper: dir_tree.Tree, stage: Stage, one: RestoredEntry, *, is_copied: bool) -> None:
    folder, _, name = one.path.rpartition(b"/")
    parent, slot = upper.directory(folder), one.slot or ""
    entry = stage.entry_in(slot)
    if entry is None:
        return
    if entry.type is FileType.DIRECTORY:
        _with_write_access(
            parent, partial(_make_directory, name, parent, entry.with_values(mode=entry.mode if is_copied else one.mode))
        )
        return
    source = (parent, _copy_of(one)) if is_copied else (stage.fd, slot.encode())
    _with_write_access(parent, partial(durable.rename_new, *source, parent, name))
    if one.mode != entry.mode == one.mode | 0o600 and entry.type is FileType.FILE and not is_copied:
        durable.chmod_at(name, parent, one.mode)  # a killed redo had made it accessible


def _copy_of(one: RestoredEntry) -> bytes:
    return f".agent-dev-{one.slot}".encode()  # stable per file


def _copy(upper: dir_tree.Tree, stage: Stage, one: RestoredEntry) -> None:
    """Copy a slot next to its target path."""
    parent, slot = upper.directory(one.path.rpartition(b"/")[0]), one.slot or ""
    entry, temporary = stage.entry_in(slot, is_copied=True), _copy_of(one)
    if entry is None or entry.type is FileType.DIRECTORY:
        return
    source = dir_tree.Tree(stage.path, is_ours=True)  # includes unreadable files
    target = Stage.in_directory(parent)
    try:
        if target.entry_in(temporary.decode()) is not None:
            _with_write_access(parent, partial(durable.unlink, temporary, parent))
        _with_write_access(parent, partial(target.copy, temporary.decode(), source, slot.encode(), entry))
    finally:
        target.close()
        source.close()


def _restore_mode(upper: dir_tree.Tree, one: RestoredEntry) -> None:
    folder, _, name = one.path.rpartition(b"/")
    found = upper.entry_at(one.path)
    if found is not None and found.type is FileType.DIRECTORY:
        parent = upper.directory(folder)
        _set_attributes(upper, one, found)
        if upper.unlocked is None or not upper.unlocked.set_mode(one.path, one.mode):
            _with_write_access(parent, partial(durable.chmod_at, name, parent, one.mode))


def _set_attributes(upper: dir_tree.Tree, one: RestoredEntry, found: Entry) -> None:
    """Set a directory's attributes as they were."""
    if found.attributes == one.attributes:
        return
    fd = upper.open(one.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for attribute, _ in set(found.attributes) - set(one.attributes):
            durable.remove_attribute(fd, attribute)
        for attribute, value in one.attributes:
            durable.set_attribute(fd, attribute, value)
    finally:
        os.close(fd)


def _restore_metadata(upper: dir_tree.Tree, real: dir_tree.Tree, stage: Stage, one: RestoredEntry) -> bool:
    """Restore mode and attributes of a directory that was created for what is restored in it; return whether it was."""
    wanted = stage.entry_in(one.slot) if one.slot else None
    found, like = upper.entry_at(one.path), real.entry_at(one.path)
    if wanted is None or found is None or like is None or not wanted.type is found.type is like.type is FileType.DIRECTORY:
        return False
    if (found.mode, found.attributes) != (like.mode, like.attributes):
        return False
    _restore_mode(upper, replace(one, mode=wanted.mode, attributes=wanted.attributes))
    return True


def _is_already_restored(upper: dir_tree.Tree, stage: Stage, one: RestoredEntry) -> bool:
    """Return whether an upper already has the restored entry, from before a crash."""
    found = upper.entry_at(one.path)
    if one.slot is None:
        above = (upper.entry_at(folder) for folder in (*parents_of(one.path), one.path))
        return any(seen is not None and seen.type is FileType.DEVICE for seen in above)
    entry = stage.entry_in(one.slot)
    return (
        entry is not None
        and found is not None
        and (found.type, found.size, found.target) == (entry.type, entry.size, entry.target)
    )


def _with_parents(changes: tuple[Change, ...]) -> set[bytes]:
    paths = [change.key.path for change in changes]
    return {*paths, *(folder for path in paths for folder in parents_of(path))}


def _remove(upper: dir_tree.Tree, path: bytes) -> None:
    folder, _, name = path.rpartition(b"/")
    try:
        parent = upper.directory(folder)
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        remove = os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink
        _with_write_access(parent, partial(remove, name, dir_fd=parent))
    except OSError as error:
        # Deletions below a whiteout, an opaque directory or a link in its place have no entry; a new directory may contain
        # unselected changes.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENOTEMPTY, errno.EEXIST):
            raise


def _make_plain(upper: dir_tree.Tree, folder: WalkedEntry, left: tuple[Change, ...]) -> None:
    inside = folder.path + b"/"
    for change in left:
        if change.kind is ChangeKind.DELETED and change.key.path.startswith(inside):
            _whiteout(upper, change.key.path)
    directory = upper.directory(folder.path)
    _with_write_access(directory, partial(os.removexattr, f"/proc/self/fd/{directory}", _OPAQUE))


def _whiteout(upper: dir_tree.Tree, path: bytes) -> None:
    """Hide a path with a whiteout; if a parent directory is missing, hide the outermost missing one."""
    for one in (*parents_of(path), path):
        found = upper.entry_at(one)
        if found is None:
            folder, _, name = one.rpartition(b"/")
            parent = upper.directory(folder)
            _with_write_access(parent, partial(durable.whiteout, name, parent))
            return
        if found.type is not FileType.DIRECTORY:
            return


def _with_write_access(folder: int, act: Callable[[], T]) -> T:
    """Call `act` with the directory writable for its owner. Never retried: `act` may make several system calls."""
    mode = os.fstat(folder).st_mode & 0o7777
    if mode & 0o700 == 0o700:
        return act()
    fd_path = f"/proc/self/fd/{folder}"
    os.chmod(fd_path, mode | 0o700)
    try:
        return act()
    finally:
        os.chmod(fd_path, mode)


def _prune(upper: dir_tree.Tree, skip: tuple[bytes, ...], left: set[bytes], opaque: set[bytes], *, with_git: bool) -> None:
    """Remove empty directories that are not changes themselves."""
    upper.close_directories()
    folders = [one.path for one in walk.walk(upper.path, skip=skip, attributes=False) if one.entry.type is FileType.DIRECTORY]
    hiding: set[bytes] = set()
    for path in folders:  # parents come first
        if path in opaque or path.rpartition(b"/")[0] in hiding:
            hiding.add(path)
    for path in reversed(folders):
        if path not in left and (with_git or not is_under_git(path)) and path not in hiding:
            folder, _, name = path.rpartition(b"/")
            parent = upper.directory(folder)
            try:
                _with_write_access(parent, partial(os.rmdir, name, dir_fd=parent))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
    upper.close_directories()
