"""Run the operations of a merge forward or backward (decision 0010).

A replacement is a RENAME_EXCHANGE followed by a check of the old entry, which is exchanged back if it is unexpected; additions
and removals use RENAME_NOREPLACE. So a path that exists before and after is never missing in between, and an edit of the user
in the last instant is never overwritten. Directories are synced in waves: before an operation inside a new directory, and
before an emptied directory is removed.
"""

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from agent_dev.fs import acl, dir_tree, durable, walk
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.fs.unlocked_directories import WRITE
from agent_dev.merge_engine import whole_directories
from agent_dev.merge_engine.journal import EntryMark, Operation, OpKind, OpProgress, entry_mark, op_progress
from agent_dev.merge_engine.slots import Stage
from agent_dev.quick_dataclass import replace

Attributes = tuple[tuple[str, bytes], ...]

_MAX_FSYNCS = 64  # directories; above that one syncfs is cheaper than many fsyncs
# Errors of the disk or the process rather than of one path: stop at once.
FATAL_ERRORS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ENOSYS)
)
_OWN, _OVERLAY = ("user.", "system.posix_acl_"), "user.overlay."
_METADATA_CHANGED = "its mode, attributes or ACL were changed concurrently"
_MISSING_PATH_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


class UnexpectedEntryError(Exception):
    """The entry at a path is not the expected one; the text describes it."""


class Driver:
    """Runs operations between real trees and their stages, only through descriptors."""

    def __init__(
        self, real_trees: tuple[dir_tree.Tree, ...], stages: tuple[Stage | None, ...], two_part_keys: frozenset[Key] = frozenset()
    ) -> None:
        """Create a driver. `two_part_keys`: entries with two operations, content and mode; if one fails, the run must stop."""
        self._real_trees = real_trees
        self._stages = stages
        self._two_part_keys = two_part_keys
        self._unsynced: dict[tuple[int, bytes], None] = {}
        self._new_directories: set[tuple[int, bytes]] = set()  # new directories whose entry is not durable yet
        self._hard_linked_ctimes: dict[
            tuple[int, int], tuple[int, int]
        ] = {}  # ctimes of hard-linked inodes, before and after our move
        self.must_keep_slots = False  # a slot has a file of the user that could not be moved back

    def entries_of(self, op: Operation) -> tuple[Entry | None, Entry | None]:
        """Return the entries at an operation's path and in its slot."""
        stage = self._stages[op.key.root]
        return self._real_trees[op.key.root].entry_at(op.key.path), stage.entry_in(op.slot) if stage and op.slot else None

    def progress_of(self, op: Operation, *, is_forward: bool) -> OpProgress:
        """Return the progress of an operation."""
        return op_progress(op, *self.entries_of(op), is_forward=is_forward)

    def run_forward(self, ops: Iterable[tuple[int, Operation]], *, is_strict: bool = True) -> dict[int, str]:
        """Run operations forward in order; return those that were not done with the reason ("": nothing to do).

        `is_strict`: an entry that our own earlier rename may have moved counts as changed too. Raises OSError on a disk error;
        then the caller must roll back.
        """
        return self._run(ops, is_forward=True, is_strict=is_strict)

    def run_backward(self, ops: Iterable[tuple[int, Operation]]) -> dict[int, str]:
        """Run operations backward, in reverse order; otherwise as `run_forward`."""
        numbered = tuple(ops)
        stopped = self._run(reversed(numbered), is_forward=False, is_strict=False)
        self._set_modes_again(numbered, stopped)
        return stopped

    def _set_modes_again(self, ops: Iterable[tuple[int, Operation]], stopped: dict[int, str]) -> None:
        """Set the modes of directories that could not be removed, and add them to `stopped`.

        The mode before the operation on the mode was one that only let us fill the new directory.
        """
        two_part = [(number, op) for number, op in ops if op.key in self._two_part_keys]
        kept = {op.key: stopped[number] for number, op in two_part if op.kind is not OpKind.MODE and stopped.get(number)}
        for number, op in two_part:
            if op.kind is OpKind.MODE and op.key in kept and number not in stopped:
                with suppress(UnexpectedEntryError):  # the user has changed the mode
                    self._set_mode(op, is_forward=True)
                stopped[number] = kept[op.key]

    def _run(self, ops: Iterable[tuple[int, Operation]], *, is_forward: bool, is_strict: bool) -> dict[int, str]:
        stopped: dict[int, str] = {}
        for real in self._real_trees:
            real.close_directories()  # the user may have renamed one since it was opened
        for number, op in ops:
            try:
                if not self._run_op(op, is_forward=is_forward, is_strict=is_strict):
                    stopped[number] = ""
            except UnexpectedEntryError as error:
                stopped[number] = str(error)
            except OSError as error:
                if error.errno in FATAL_ERRORS or op.key in self._two_part_keys:
                    raise
                stopped[number] = error.strerror or str(error)
        return stopped

    def _run_op(self, op: Operation, *, is_forward: bool, is_strict: bool) -> bool:
        """Run one operation; return whether there was something to do. Raises UnexpectedEntryError or OSError."""
        here = (op.key.root, op.key.path)
        parent = (op.key.root, op.key.path.rpartition(b"/")[0])
        if parent in self._new_directories or here in self._unsynced:
            self.sync()
        match op.kind:
            case OpKind.PRUNE:
                done = self._prune(op, is_strict=is_strict) if is_forward else self._recreate(op)
            case OpKind.MODE:
                done = self._set_mode(op, is_forward=is_forward)
            case _:
                arriving, leaving = (op.new, op.old) if is_forward else (op.old, op.new)
                done = self._move(op, arriving, leaving, is_strict=is_strict)
        return done

    def _parent_and_name(self, op: Operation) -> tuple[int, bytes]:
        """Return the directory of the operation's path, and the name in it."""
        folder, _, name = op.key.path.rpartition(b"/")
        tree = self._real_trees[op.key.root]
        place = tree.directory(folder)
        if os.fstat(place).st_mode & WRITE != WRITE:
            tree.unlock(folder)
        self._unsynced[(op.key.root, folder)] = None
        return place, name

    def _stage(self, op: Operation) -> Stage:
        stage = self._stages[op.key.root]
        if stage is None:
            raise UnexpectedEntryError("its staging directory is missing")
        return stage

    # Moves

    def _move(self, op: Operation, arriving: EntryMark | None, leaving: EntryMark | None, *, is_strict: bool) -> bool:
        folder, name = self._parent_and_name(op)
        found = None
        if leaving is not None:
            if leaving.type is FileType.DIRECTORY:
                self._expect_own_metadata(op, is_strict=is_strict)
                self._real_trees[op.key.root].unlock(op.key.path)  # the kernel moves no directory that its owner may not write to
            found = walk.read_entry(folder, name)
            _expect(self._expected_mark(op, leaving), found, is_strict=is_strict)
        if leaving is None:
            if not self._attach(op, folder, name):
                return False
        elif arriving is None:
            self._detach(op, folder, name, leaving)
        else:
            self._exchange(op, folder, name, (arriving, leaving))
        self._update_after_move(op, arriving, leaving)
        if arriving is not None and arriving.type is FileType.DIRECTORY and arriving.mode & WRITE != WRITE:
            self._restore_mode(folder, name, arriving)
        if found is not None and found.links > 1 and found.type is not FileType.DIRECTORY:
            self._record_hard_link(op, found)
        return True

    @staticmethod
    def _restore_mode(folder: int, name: bytes, arrived: EntryMark) -> None:
        """Restore the mode of a directory that was made writable to be moved and is back now."""
        if walk.read_entry(folder, name).mode == arrived.mode | WRITE:
            durable.chmod_at(name, folder, arrived.mode)

    def _expected_mark(self, op: Operation, leaving: EntryMark) -> EntryMark:
        """Return the expected mark of a path whose inode we already moved under another name, which changed its ctime."""
        before, after = self._hard_linked_ctimes.get((op.key.root, leaving.inode), (0, 0))
        return leaving.with_values(ctime=after) if before and leaving.ctime == before else leaving

    def _record_hard_link(self, op: Operation, was: Entry) -> None:
        now = self._stage(op).entry_in(op.slot)
        if now is not None and now.inode == was.inode:
            first, _ = self._hard_linked_ctimes.get((op.key.root, was.inode), (was.ctime, 0))
            self._hard_linked_ctimes[op.key.root, was.inode] = first, now.ctime

    def _update_after_move(self, op: Operation, arriving: EntryMark | None, leaving: EntryMark | None) -> None:
        """Forget open directories that moved, and record a new one: its entry must be durable before it is filled."""
        if any(moved is not None and moved.type is FileType.DIRECTORY for moved in (arriving, leaving)):
            self._real_trees[op.key.root].close_directories()
        if arriving is not None and arriving.type is FileType.DIRECTORY:
            self._new_directories.add((op.key.root, op.key.path))

    def _attach(self, op: Operation, folder: int, name: bytes) -> bool:
        try:
            durable.rename_new(self._stage(op).fd, op.slot.encode(), folder, name)
        except FileExistsError:
            if op.is_auxiliary and walk.read_entry(folder, name).type is FileType.DIRECTORY:
                return False
            raise UnexpectedEntryError("something was created there concurrently") from None
        return True

    def _detach(self, op: Operation, folder: int, name: bytes, leaving: EntryMark) -> None:
        stage, slot = self._stage(op), op.slot.encode()
        if leaving.type is FileType.DIRECTORY and not op.members and not _is_empty(folder, name):
            raise UnexpectedEntryError("it is not empty any more")
        durable.rename_new(folder, name, stage.fd, slot)
        try:
            self._expect_in_slot(op, leaving)
        except (UnexpectedEntryError, OSError) as error:
            try:
                durable.rename_new(stage.fd, slot, folder, name)
            except OSError:
                self.must_keep_slots = True
                raise UnexpectedEntryError(f"{error}; your version is kept as {stage.path}/{op.slot}") from None
            raise

    def _exchange(self, op: Operation, folder: int, name: bytes, sides: tuple[EntryMark, EntryMark]) -> None:
        arriving, leaving = sides
        durable.exchange(self._stage(op).fd, op.slot.encode(), folder, name)
        try:
            self._expect_in_slot(op, leaving)
        except (UnexpectedEntryError, OSError):
            self._exchange_back(op, folder, name, arriving)
            raise

    def _exchange_back(self, op: Operation, folder: int, name: bytes, ours: EntryMark) -> None:
        """Exchange an unexpected old entry back, if our entry is still at the path.

        If the user has saved another entry there, both versions are the user's: the older one stays in the slot and is reported.
        """
        stage, slot = self._stage(op), op.slot.encode()
        durable.exchange(stage.fd, slot, folder, name)
        if not ours.matches(stage.entry_in(op.slot)):
            durable.exchange(stage.fd, slot, folder, name)
            self.must_keep_slots = True
            raise UnexpectedEntryError(f"it was changed concurrently, twice; the first version is kept as {stage.path}/{op.slot}")

    def _expect_in_slot(self, op: Operation, wanted: EntryMark) -> None:
        found = self._stage(op).entry_in(op.slot)
        _expect(wanted, found, is_strict=False)
        if op.members:
            if not whole_directories.is_unchanged(self._stage(op).fd, op.slot.encode(), op):
                raise UnexpectedEntryError("its content was changed concurrently")
        elif wanted.type is FileType.DIRECTORY and not _is_empty(self._stage(op).fd, op.slot.encode()):
            raise UnexpectedEntryError("files were created in it concurrently")

    # Directories

    def _prune(self, op: Operation, *, is_strict: bool) -> bool:
        folder, name = self._parent_and_name(op)
        if op.is_auxiliary and self._is_changed(op):
            return False
        self._expect_own_metadata(op, is_strict=is_strict)
        try:
            changed = _remove_empty(folder, name, op.old.attributes if op.old is not None else ())
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR) and op.is_auxiliary:
                return False  # not empty: unselected files or the user's own
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise UnexpectedEntryError("files were created in it concurrently") from None
            raise
        self._real_trees[op.key.root].close_directories()
        return changed is None or self._bring_back(op, *changed)

    def _bring_back(self, op: Operation, mode: int, attributes: Attributes) -> bool:
        """Recreate a directory whose metadata the user changed in the last instant. Raises UnexpectedEntryError."""
        assert op.old is not None  # noqa: S101  (a removed directory has one)
        self._recreate(replace(op, old=op.old.with_values(mode=mode, attributes=attributes)))
        if op.is_auxiliary:
            return False
        raise UnexpectedEntryError(_METADATA_CHANGED)

    def _expect_own_metadata(self, op: Operation, *, is_strict: bool) -> None:
        """Raise UnexpectedEntryError if `is_strict` and the user changed a directory's mode, attributes or ACL."""
        if is_strict and self._is_changed(op):
            raise UnexpectedEntryError(_METADATA_CHANGED)

    def _is_changed(self, op: Operation) -> bool:
        """Return whether a directory's mode, attributes or ACL changed since its operation was recorded."""
        real = self._real_trees[op.key.root]
        found = real.entry_at(op.key.path)
        if op.old is None or found is None or found.type is not FileType.DIRECTORY:
            return False  # rmdir will report the cause
        now = {*acl.attributes_with_acl(real, op.key.path, found)}
        return (found.mode, now) != (op.old.mode, {*op.old.attributes})

    def _recreate(self, op: Operation) -> bool:
        """Recreate a pruned directory with a new inode."""
        if op.old is None:
            raise UnexpectedEntryError("its previous state is unknown")
        folder, name = self._parent_and_name(op)
        stage, slot, mode = self._stage(op), op.slot.encode(), op.old.mode
        if stage.entry_in(op.slot) is None:
            stage.create(op.slot, Entry(op.old.type, mode, attributes=op.old.attributes))
        fd = os.open(slot, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=stage.fd)
        try:
            durable.chmod(fd, mode | 0o700)
            durable.rename_new(stage.fd, slot, folder, name)
            if mode & 0o700 != 0o700:
                durable.chmod(fd, mode)  # only now, because an unwritable directory cannot be moved
                durable.fsync(fd)
        except FileExistsError:
            if walk.read_entry(folder, name).type is FileType.DIRECTORY:
                durable.rmdir(slot, stage.fd)
                return False
            raise UnexpectedEntryError("something was created there concurrently") from None
        finally:
            os.close(fd)
        self._new_directories.add((op.key.root, op.key.path))
        return True

    def _set_mode(self, op: Operation, *, is_forward: bool) -> bool:
        was, wanted = (op.old, op.new) if is_forward else (op.new, op.old)
        if was is None or wanted is None:
            raise UnexpectedEntryError("its previous state is unknown")
        self._parent_and_name(op)
        self.mark_for_sync(op)
        found = self._real_trees[op.key.root].entry_at(op.key.path)
        if found is None:
            return False
        if found.type is not FileType.DIRECTORY or (found.inode != was.inode and was.inode):
            raise UnexpectedEntryError("it was removed or replaced concurrently")
        if (found.mode, found.attributes) == (wanted.mode, wanted.attributes):
            is_same = (was.mode, was.attributes) == (wanted.mode, wanted.attributes)
            return is_same or not is_forward  # what others have set is not ours: a later undo must not revert it
        if found.mode != was.mode:
            raise UnexpectedEntryError("its mode was changed concurrently")
        self._set_attributes(op, was, wanted)
        return True

    def _set_attributes(self, op: Operation, was: EntryMark, wanted: EntryMark) -> None:
        tree = self._real_trees[op.key.root]
        if was.attributes != wanted.attributes:
            tree.unlock(op.key.path)  # the kernel requires write permission for user.* attributes
        fd = tree.open(op.key.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for attribute, _ in set(was.attributes) - set(wanted.attributes):
                durable.remove_attribute(fd, attribute)
            for attribute, value in wanted.attributes:
                durable.set_attribute(fd, attribute, value)
            # An unchanged mode is not set again: the user may have changed it since it was read.
            if wanted.mode != was.mode and (tree.unlocked is None or not tree.unlocked.set_mode(op.key.path, wanted.mode)):
                durable.chmod(fd, wanted.mode)
        finally:
            os.close(fd)

    # Durability

    def mark_for_sync(self, op: Operation) -> None:
        """Let the next `sync` cover an operation's directory, even if another process ran the operation."""
        self._unsynced[(op.key.root, op.key.path.rpartition(b"/")[0])] = None
        if op.kind is OpKind.MODE:
            self._unsynced[(op.key.root, op.key.path)] = None

    def sync(self) -> None:
        """Make changed directories of the real trees durable, and their counterparts in the stages."""
        if not self._unsynced:
            return
        if len(self._unsynced) > _MAX_FSYNCS:
            for root in {root for root, _ in self._unsynced}:
                durable.syncfs(self._real_trees[root].fd)
        else:
            for root, folder in self._unsynced:
                self._sync_folder(root, folder)
        self._unsynced.clear()
        self._new_directories.clear()

    def _sync_folder(self, root: int, folder: bytes) -> None:
        try:
            durable.sync_directory(self._real_trees[root].directory(folder))
        except PermissionError:
            durable.syncfs(self._real_trees[root].fd)  # an unreadable directory
        except OSError as error:
            if error.errno not in _MISSING_PATH_ERRORS:
                raise

    def current_marks(self, ops: Iterable[tuple[int, Operation]], *, is_forward: bool) -> dict[int, EntryMark | None]:
        """Return the current marks at the operations' paths; a new entry whose mode the user changed since has its merged mode.

        The mode alone shows that the user changed it: if the current mode were recorded, an undo would discard that change.
        """
        seen: dict[int, EntryMark | None] = {}
        for number, op in ops:
            entry = self._real_trees[op.key.root].entry_at(op.key.path, attributes=False)
            now = entry_mark(entry) if entry is not None else None
            came = op.new if is_forward and op.kind in (OpKind.ATTACH, OpKind.EXCHANGE) else None
            is_final = came is not None and came.type is not FileType.SYMLINK and op.key not in self._two_part_keys
            if now is not None and came is not None and is_final and came.matches(entry) and came.mode != now.mode:
                now = now.with_values(mode=came.mode, ctime=0)
            seen[number] = now
        return seen

    def late_writes(self, ops: Iterable[tuple[int, Operation]]) -> dict[int, str]:
        """Return operations whose replaced file was written to through an old descriptor."""
        return {number: "it was written to concurrently" for number, op in ops if not self._is_kept(op)}

    def _is_kept(self, op: Operation) -> bool:
        stage = self._stages[op.key.root]
        return (
            op.old is None
            or not op.slot
            or op.kind is OpKind.PRUNE
            or (stage is not None and op.old.matches(stage.entry_in(op.slot)))
        )


def _expect(wanted: EntryMark, found: Entry | None, *, is_strict: bool) -> None:
    """Raise UnexpectedEntryError unless the wanted entry was found; `is_strict`: also if it was moved."""
    if not (wanted.matches_unmoved(found) if is_strict and wanted.ctime else wanted.matches(found)):
        raise UnexpectedEntryError("it was changed concurrently")


def _remove_empty(folder: int, name: bytes, unreadable: Attributes) -> tuple[int, Attributes] | None:
    """Remove an empty directory; return its metadata if it was changed in the last instant. Raises OSError."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        was = _metadata(fd, unreadable)
        durable.rmdir(name, folder)
        now = _metadata(fd, unreadable)
        return now if now != was else None
    finally:
        os.close(fd)


def _metadata(fd: int, unreadable: Attributes) -> tuple[int, Attributes]:
    """Return the mode of an open directory, even of a removed one, and its attributes and ACL, or `unreadable`."""
    path = f"/proc/self/fd/{fd}"
    try:
        names = sorted(name for name in os.listxattr(path) if name.startswith(_OWN) and not name.startswith(_OVERLAY))
        attributes = tuple((name, os.getxattr(path, name)) for name in names)
    except PermissionError:
        attributes = unreadable
    return stat.S_IMODE(os.fstat(fd).st_mode), attributes


def _is_empty(folder: int, name: bytes) -> bool:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(fd) as entries:
            return next(entries, None) is None
    finally:
        os.close(fd)
