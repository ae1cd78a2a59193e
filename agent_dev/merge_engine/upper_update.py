"""Taking merged changes out of an upper, so that a resumed session sees the real tree there and shares no inode with it."""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.fs import walk as scan
from agent_dev.fs.rmtree import remove_tree
from agent_dev.merge_engine import whole_directories as whole
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay.changes import Change, Entry, FileType, Kind, parents_of
from agent_dev.overlay.interpret import Found, is_under_git

_OPAQUE = "user.overlay.opaque"
T = TypeVar("T")


def empty(upper: files.Tree, aside: str, skip: tuple[bytes, ...]) -> None:
    """Move all that is in an upper aside, when all of it was taken: a rename for each name at the top."""
    place = os.open(aside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(upper.fd):
            if os.fsencode(name) not in skip:
                _open_folder(upper.fd, name)
                _unlocked(upper.fd, partial(os.rename, name, name, src_dir_fd=upper.fd, dst_dir_fd=place))
    finally:
        os.close(place)
    upper.forget()


def _open_folder(folder: int, name: str) -> None:
    """Open a directory that its owner may have shut: who may not write to it cannot move it."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & 0o300 != 0o300:
        os.chmod(name, 0o700, dir_fd=folder)


def take_out(upper: files.Tree, taken: tuple[Change, ...], left: tuple[Change, ...], skip: tuple[bytes, ...]) -> None:
    """Remove what was taken. An opaque directory becomes a plain one, its deletions that were left become whiteouts.

    What lies under a `.git` is never merged and stays as it is.
    """
    touched = _with_parents(taken)
    for change in sorted(taken, key=lambda one: -one.key.path.count(b"/")):
        if change.kind is not Kind.METADATA or change.after is None or change.type is not FileType.DIRECTORY:
            _remove(upper, change.key.path)
    stays = _with_parents(left)
    marks = [one for one in scan.walk(upper.path, skip=skip) if one.is_whiteout() or one.is_opaque()]
    for one in marks:
        if is_under_git(one.path):
            continue
        if one.is_whiteout():
            if one.path not in stays:
                _remove(upper, one.path)
        elif one.path in touched:
            _make_plain(upper, one, left)
    # What an opaque directory holds says what is not deleted: there nothing is noise.
    opaque = {one.path for one in marks if one.is_opaque() and one.path not in touched}
    _prune(upper, skip, {change.key.path for change in left}, opaque)


@dataclass(frozen=True, slots=True)
class Given:
    """What an undo took out of the real tree and gives back to the session: a slot's content, or (None) a deletion."""

    path: bytes
    slot: str | None  # "": a directory that got another mode
    mode: int = 0  # of a directory
    is_whole: bool = False  # a directory with all that is in it


def give_back(
    upper: files.Tree, real: files.Tree, stage: Stage, given: tuple[Given, ...], *, is_copied: bool = False
) -> tuple[bytes, ...]:
    """Put into an upper again what was undone; return the paths where the session has something else by now.

    Directories come first, from the outermost; a deletion is one whiteout at the outermost directory that is gone whole.
    Slots are emptied, but for directories, unless `is_copied`. Nothing leaves a slot before the directories for it are
    durable: a power cut would take them with what is in them; and no copy gets its name before its bytes are durable.
    """
    ordered = sorted(given, key=lambda one: one.path.count(b"/"))
    folders = [] if is_copied else [one for one in ordered if _is_folder(stage, one)]
    made = {one.path for one in folders}
    rest = [one for one in ordered if one.path not in made]
    kept = [one.path for one in folders if not _give(upper, real, stage, one, is_copied=False)]
    for one in rest:
        if one.slot and _ensure_parents(upper, real, one.path) and is_copied and upper.look(one.path) is None:
            _copy(upper, stage, one)
    disk.syncfs(upper.fd)
    kept += [one.path for one in rest if not _give(upper, real, stage, one, is_copied=is_copied)]
    upper.forget()
    disk.syncfs(upper.fd)
    return tuple(kept)


def _is_folder(stage: Stage, one: Given) -> bool:
    """Whether only a directory is made, or given a mode."""
    entry = stage.look(one.slot) if one.slot and not one.is_whole else None
    return one.slot == "" or (entry is not None and entry.type is FileType.DIRECTORY)


def _give(upper: files.Tree, real: files.Tree, stage: Stage, one: Given, *, is_copied: bool) -> bool:
    """Put one thing into an upper again; return False where the session has something else by now."""
    if one.slot == "":
        _ensure_parents(upper, real, one.path + b"/")
        _chmod(upper, one)
    elif one.is_whole:
        _bring_whole(upper, real, stage, one)
    elif not _ensure_parents(upper, real, one.path) or upper.look(one.path) is not None:
        return _is_there(upper, stage, one)
    elif one.slot is None:
        _whiteout(upper, one.path)
    else:
        _bring(upper, stage, one, is_copied=is_copied)
    return True


def hand_over(upper: files.Tree, stage: Stage, path: bytes, slot: str, entry: Entry) -> str:
    """Move something from an upper into a slot; return a file's digest. Raises OSError."""
    folder, _, name = path.rpartition(b"/")
    place = upper.folder(folder)
    return _unlocked(place, partial(stage.adopt, slot, place, name, entry))


def hand_over_whole(upper: files.Tree, stage: Stage, path: bytes, slot: str) -> None:
    """Move a directory from an upper into a slot with all that is in it. Raises OSError."""
    folder, _, name = path.rpartition(b"/")
    place = upper.folder(folder)
    _unlocked(place, partial(disk.move, place, name, stage.fd, slot.encode()))
    upper.forget()


def _bring_whole(upper: files.Tree, real: files.Tree, stage: Stage, one: Given) -> None:
    """Move a directory into an upper; where the session has one by now, what is in it, as far as nothing is in the way."""
    slot = one.slot or ""
    if stage.look(slot) is None or move_in(upper, real, stage, one.path, slot):
        return
    found = upper.look(one.path)
    if found is not None and found.type is FileType.DIRECTORY:
        folder, _, name = one.path.rpartition(b"/")
        whole.pour(stage.fd, slot.encode(), upper.folder(folder), name)


def move_in(upper: files.Tree, real: files.Tree, stage: Stage, path: bytes, slot: str) -> bool:
    """Move a slot's content into an upper; return False where the session has something else by now."""
    folder, _, name = path.rpartition(b"/")
    if not _ensure_parents(upper, real, path) or upper.look(path) is not None:
        return False
    place = upper.folder(folder)
    _unlocked(place, partial(disk.move, stage.fd, slot.encode(), place, name))
    return True


def _ensure_parents(upper: files.Tree, real: files.Tree, path: bytes) -> bool:
    """Make the directories above a path like the real ones; return whether it can be reached."""
    for folder in parents_of(path):
        found = upper.look(folder)
        if found is None:
            like = real.look(folder)
            above, _, name = folder.rpartition(b"/")
            place = upper.folder(above)
            mode = like.mode if like is not None and like.type is FileType.DIRECTORY else 0o755
            _unlocked(place, partial(_new_folder, name, place, mode))
        elif found.type is not FileType.DIRECTORY:
            return False
    return True


def _new_folder(name: bytes, place: int, mode: int) -> None:
    """Make a directory that has its mode when it has its name: killed halfway it is not taken for the agent's."""
    made = b".agent-dev-new"
    try:
        disk.rmdir(made, place)
    except FileNotFoundError:
        pass
    except OSError:
        remove_tree(f"/proc/self/fd/{place}/{made.decode()}")  # a power cut took its name and left what is in it
    disk.mkdir(made, place, mode)
    disk.move(place, made, place, name)


def _bring(upper: files.Tree, stage: Stage, one: Given, *, is_copied: bool) -> None:
    folder, _, name = one.path.rpartition(b"/")
    place, slot = upper.folder(folder), one.slot or ""
    entry = stage.look(slot)
    if entry is None:
        return
    if entry.type is FileType.DIRECTORY:
        _unlocked(place, partial(_new_folder, name, place, one.mode))
        return
    came_from = (place, _copy_of(one)) if is_copied else (stage.fd, slot.encode())
    _unlocked(place, partial(disk.move, *came_from, place, name))


def _copy_of(one: Given) -> bytes:
    return f".agent-dev-{one.slot}".encode()  # the same for a file


def _copy(upper: files.Tree, stage: Stage, one: Given) -> None:
    """Copy a slot beside where it is to be."""
    place, slot = upper.folder(one.path.rpartition(b"/")[0]), one.slot or ""
    entry, made = stage.look(slot), _copy_of(one)
    if entry is None or entry.type is FileType.DIRECTORY:
        return
    source = files.Tree(stage.path)
    into = Stage.within(place)
    try:
        if into.look(made.decode()) is not None:
            _unlocked(place, partial(disk.unlink, made, place))
        _unlocked(place, partial(into.copy, made.decode(), source, slot.encode(), entry))
    finally:
        into.close()
        source.close()


def _chmod(upper: files.Tree, one: Given) -> None:
    folder, _, name = one.path.rpartition(b"/")
    found = upper.look(one.path)
    if found is not None and found.type is FileType.DIRECTORY:
        place = upper.folder(folder)
        _unlocked(place, partial(disk.chmod_at, name, place, one.mode))


def _is_there(upper: files.Tree, stage: Stage, one: Given) -> bool:
    """Whether an upper holds what would be given back: from before a crash."""
    found = upper.look(one.path)
    if one.slot is None:
        above = (upper.look(folder) for folder in (*parents_of(one.path), one.path))
        return any(seen is not None and seen.type is FileType.DEVICE for seen in above)
    entry = stage.look(one.slot)
    return (
        entry is not None
        and found is not None
        and (found.type, found.size, found.target) == (entry.type, entry.size, entry.target)
    )


def _with_parents(changes: tuple[Change, ...]) -> set[bytes]:
    paths = [change.key.path for change in changes]
    return {*paths, *(folder for path in paths for folder in parents_of(path))}


def _remove(upper: files.Tree, path: bytes) -> None:
    folder, _, name = path.rpartition(b"/")
    try:
        place = upper.folder(folder)
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        remove = os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink
        _unlocked(place, partial(remove, name, dir_fd=place))
    except OSError as error:
        # Deletions under a whiteout or an opaque directory have no entry of their own; a new directory may hold what was left.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST):
            raise


def _make_plain(upper: files.Tree, folder: Found, left: tuple[Change, ...]) -> None:
    inside = folder.path + b"/"
    for change in left:
        if change.kind is Kind.DELETED and change.key.path.startswith(inside):
            _whiteout(upper, change.key.path)
    place = upper.folder(folder.path)
    _unlocked(place, partial(os.removexattr, f"/proc/self/fd/{place}", _OPAQUE))


def _whiteout(upper: files.Tree, path: bytes) -> None:
    """Hide a path; where the agent did not keep a directory above it, hide that one, the outermost."""
    for one in (*parents_of(path), path):
        found = upper.look(one)
        if found is None:
            folder, _, name = one.rpartition(b"/")
            place = upper.folder(folder)
            _unlocked(place, partial(disk.whiteout, name, place))
            return
        if found.type is not FileType.DIRECTORY:
            return


def _unlocked(folder: int, act: Callable[[], T]) -> T:
    """Act in a directory that its owner may have shut."""
    try:
        return act()
    except PermissionError:
        place = f"/proc/self/fd/{folder}"
        mode = os.fstat(folder).st_mode & 0o7777
        os.chmod(place, mode | 0o700)
        try:
            return act()
        finally:
            os.chmod(place, mode)


def _prune(upper: files.Tree, skip: tuple[bytes, ...], left: set[bytes], opaque: set[bytes]) -> None:
    """Remove directories that hold nothing any more and are no change themselves."""
    upper.forget()
    folders = [one.path for one in scan.walk(upper.path, skip=skip, attributes=False) if one.entry.type is FileType.DIRECTORY]
    hiding: set[bytes] = set()
    for path in folders:  # those above come first
        if path in opaque or path.rpartition(b"/")[0] in hiding:
            hiding.add(path)
    for path in reversed(folders):
        if path not in left and not is_under_git(path) and path not in hiding:
            folder, _, name = path.rpartition(b"/")
            place = upper.folder(folder)
            try:
                _unlocked(place, partial(os.rmdir, name, dir_fd=place))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
    upper.forget()
