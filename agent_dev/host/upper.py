"""Taking merged changes out of an upper, so that a resumed session sees the real tree there and shares no inode with it."""

import errno
import os
import stat

from agent_dev.core.changes import Change, FileType, Kind
from agent_dev.core.overlay import Found, parents_of
from agent_dev.host import files, scan

_OPAQUE = "user.overlay.opaque"


def take_out(upper: files.Tree, taken: tuple[Change, ...], left: tuple[Change, ...], skip: tuple[bytes, ...]) -> None:
    """Remove what was taken. An opaque directory becomes a plain one, its deletions that were left become whiteouts."""
    names = {change.key.path for change in taken}
    for change in sorted(taken, key=lambda one: -one.key.path.count(b"/")):
        if change.kind is not Kind.METADATA or change.after is None or change.type is not FileType.DIRECTORY:
            _remove(upper, change.key.path)
    stays = {change.key.path for change in left}
    marks = [one for one in scan.walk(upper.path, skip=skip) if one.is_whiteout() or one.is_opaque()]
    for one in marks:
        if one.is_whiteout():
            if not _any_below(stays, one.path):
                _remove(upper, one.path)
            continue
        if _any_below(names, one.path):
            _make_plain(upper, one, left)
    _prune(upper, skip, stays)


def _any_below(paths: set[bytes], folder: bytes) -> bool:
    return any(path == folder or path.startswith(folder + b"/") for path in paths)


def _remove(upper: files.Tree, path: bytes) -> None:
    folder, _, name = path.rpartition(b"/")
    try:
        place = upper.folder(folder)
        status = os.stat(name, dir_fd=place, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=place)
        else:
            os.unlink(name, dir_fd=place)
    except OSError as error:
        # Deletions under a whiteout or an opaque directory have no entry of their own; a new directory may hold what was left.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST):
            raise


def _make_plain(upper: files.Tree, folder: Found, left: tuple[Change, ...]) -> None:
    inside = folder.path + b"/"
    for change in left:
        if change.kind is Kind.DELETED and change.key.path.startswith(inside):
            _whiteout(upper, change.key.path)
    os.removexattr(f"/proc/self/fd/{upper.folder(folder.path)}", _OPAQUE)


def _whiteout(upper: files.Tree, path: bytes) -> None:
    for parent in parents_of(path):
        try:
            place, _, name = parent.rpartition(b"/")
            os.mkdir(name, 0o755, dir_fd=upper.folder(place))
        except FileExistsError:
            continue
    folder, _, name = path.rpartition(b"/")
    os.mknod(name, stat.S_IFCHR, 0, dir_fd=upper.folder(folder))


def _prune(upper: files.Tree, skip: tuple[bytes, ...], left: set[bytes]) -> None:
    """Remove directories that hold nothing any more and are no change themselves."""
    upper.forget()
    folders = [one.path for one in scan.walk(upper.path, skip=skip, attributes=False) if one.entry.type is FileType.DIRECTORY]
    for path in reversed(folders):
        if path not in left:
            folder, _, name = path.rpartition(b"/")
            try:
                os.rmdir(name, dir_fd=upper.folder(folder))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
    upper.forget()
