"""Drive the operations of a merge forward or back (decision 0010).

A replacement is RENAME_EXCHANGE and then a check of what came out, exchanged back when it is not what the operation expects;
additions and removals use NOREPLACE. So no path is ever absent that existed before and after, and what the user did in the
last instant is never overwritten. Directories are made durable in waves: before anything is done within one that was just
attached, and before one goes whose content just went.
"""

import errno
import os
from collections.abc import Iterable
from dataclasses import replace

from agent_dev.fs import dir_tree as files
from agent_dev.fs import durable as disk
from agent_dev.fs import walk as scan
from agent_dev.merge_engine import whole_directories as whole
from agent_dev.merge_engine.journal import Act, Mark, Op, Place, mark, place
from agent_dev.merge_engine.slots import Stage
from agent_dev.overlay.changes import Entry, FileType, Key

_MANY = 64  # directories: past that one syncfs is cheaper than an fsync for each
# A disk or a process at its end: not one path's fault, so nothing more is tried.
FATAL = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ENOSYS)
)
_NO_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


class StrangerError(Exception):
    """What stands at a path is not what the operation expects; its text says what was found."""


class Driver:
    """Drives operations between real trees and their stages, by descriptors only."""

    def __init__(
        self, reals: tuple[files.Tree, ...], stages: tuple[Stage | None, ...], twofold: frozenset[Key] = frozenset()
    ) -> None:
        """`twofold`: what comes and gets its mode by two operations: when one of them fails, nothing may stay halfway."""
        self._reals = reals
        self._stages = stages
        self._twofold = twofold
        self._touched: dict[tuple[int, bytes], None] = {}
        self._fresh: set[tuple[int, bytes]] = set()  # attached directories whose entry is not yet durable
        self._named: dict[tuple[int, int], tuple[int, int]] = {}  # ctimes of inodes with more names, before and after our move
        self.keeps = False  # a slot holds what the user saved, for which the path has no room

    def look(self, op: Op) -> tuple[Entry | None, Entry | None]:
        """Return what is at an operation's path and what is in its slot."""
        stage = self._stages[op.key.root]
        return self._reals[op.key.root].look(op.key.path), stage.look(op.slot) if stage and op.slot else None

    def place(self, op: Op, *, is_forward: bool) -> Place:
        """Tell how far the drive of an operation got."""
        return place(op, *self.look(op), is_forward=is_forward)

    def forward(self, ops: Iterable[tuple[int, Op]], *, is_strict: bool = True) -> dict[int, str]:
        """Drive operations forward in their order; return those that were not done, and why ("": needless).

        `is_strict`: what a rename of ours may have moved counts as changed too. Raises OSError when the disk fails; then
        what was done must be driven back.
        """
        return self._drive(ops, is_forward=True, is_strict=is_strict)

    def back(self, ops: Iterable[tuple[int, Op]]) -> dict[int, str]:
        """Drive operations back in the reverse of their order; as `forward`."""
        return self._drive(reversed(tuple(ops)), is_forward=False, is_strict=False)

    def _drive(self, ops: Iterable[tuple[int, Op]], *, is_forward: bool, is_strict: bool) -> dict[int, str]:
        stopped: dict[int, str] = {}
        for number, op in ops:
            try:
                if not self._carry_out(op, is_forward=is_forward, is_strict=is_strict):
                    stopped[number] = ""
            except StrangerError as error:
                stopped[number] = str(error)
            except OSError as error:
                if error.errno in FATAL or op.key in self._twofold:
                    raise
                stopped[number] = error.strerror or str(error)
        return stopped

    def _carry_out(self, op: Op, *, is_forward: bool, is_strict: bool) -> bool:
        """Do one; return whether there was something to do. Raises StrangerError or OSError."""
        here = (op.key.root, op.key.path)
        parent = (op.key.root, op.key.path.rpartition(b"/")[0])
        if parent in self._fresh or here in self._touched:
            self.sync()
        match op.act:
            case Act.PRUNE:
                done = self._prune(op) if is_forward else self._grow(op)
            case Act.MODE:
                done = self._set_mode(op, is_forward=is_forward)
            case _:
                arriving, leaving = (op.new, op.old) if is_forward else (op.old, op.new)
                done = self._move(op, arriving, leaving, is_strict=is_strict)
        return done

    def _at(self, op: Op) -> tuple[int, bytes]:
        """Return the directory that holds the operation's path, and the name in it."""
        folder, _, name = op.key.path.rpartition(b"/")
        place = self._reals[op.key.root].folder(folder)
        self._touched[(op.key.root, folder)] = None
        return place, name

    def _stage(self, op: Op) -> Stage:
        stage = self._stages[op.key.root]
        if stage is None:
            raise StrangerError("its staging directory is gone")
        return stage

    # moves

    def _move(self, op: Op, arriving: Mark | None, leaving: Mark | None, *, is_strict: bool) -> bool:
        folder, name = self._at(op)
        found = None
        if leaving is not None:
            found = scan.entry(folder, name)
            _demand(self._since_our_own(op, leaving), found, is_strict=is_strict)
        if leaving is None:
            if not self._attach(op, folder, name):
                return False
        elif arriving is None:
            self._detach(op, folder, name, leaving)
        else:
            self._exchange(op, folder, name, (arriving, leaving))
        self._remember(op, arriving, leaving)
        if found is not None and found.links > 1 and found.type is not FileType.DIRECTORY:
            self._note_names(op, found)
        return True

    def _since_our_own(self, op: Op, leaving: Mark) -> Mark:
        """Return what must stand at a path whose file we moved by another name of it already, which gave it a ctime."""
        before, after = self._named.get((op.key.root, leaving.inode), (0, 0))
        return replace(leaving, ctime=after) if before and leaving.ctime == before else leaving

    def _note_names(self, op: Op, was: Entry) -> None:
        now = self._stage(op).look(op.slot)
        if now is not None and now.inode == was.inode:
            first, _ = self._named.get((op.key.root, was.inode), (was.ctime, 0))
            self._named[op.key.root, was.inode] = first, now.ctime

    def _remember(self, op: Op, arriving: Mark | None, leaving: Mark | None) -> None:
        """Let go of directories that moved, and note one that is new: nothing happens in it before its entry is durable."""
        if any(moved is not None and moved.type is FileType.DIRECTORY for moved in (arriving, leaving)):
            self._reals[op.key.root].forget()
        if arriving is not None and arriving.type is FileType.DIRECTORY:
            self._fresh.add((op.key.root, op.key.path))

    def _attach(self, op: Op, folder: int, name: bytes) -> bool:
        try:
            disk.move(self._stage(op).fd, op.slot.encode(), folder, name)
        except FileExistsError:
            if op.is_loose and scan.entry(folder, name).type is FileType.DIRECTORY:
                return False
            raise StrangerError("something was put there meanwhile") from None
        return True

    def _detach(self, op: Op, folder: int, name: bytes, leaving: Mark) -> None:
        stage, slot = self._stage(op), op.slot.encode()
        if leaving.type is FileType.DIRECTORY and not op.whole and not _is_empty(folder, name):
            raise StrangerError("it holds other things now")
        disk.move(folder, name, stage.fd, slot)
        try:
            self._demand_in_slot(op, leaving)
        except (StrangerError, OSError) as error:
            try:
                disk.move(stage.fd, slot, folder, name)
            except OSError:
                self.keeps = True
                raise StrangerError(f"{error}; what was there then is kept as {stage.path}/{op.slot}") from None
            raise

    def _exchange(self, op: Op, folder: int, name: bytes, sides: tuple[Mark, Mark]) -> None:
        arriving, leaving = sides
        disk.exchange(self._stage(op).fd, op.slot.encode(), folder, name)
        try:
            self._demand_in_slot(op, leaving)
        except (StrangerError, OSError):
            self._exchange_back(op, folder, name, arriving)
            raise

    def _exchange_back(self, op: Op, folder: int, name: bytes, ours: Mark) -> None:
        """Give back what came out and is not what was expected, if ours still stands at the path.

        Where a still later save has taken its place both are the user's: then what came out stays in the slot and is told.
        """
        stage, slot = self._stage(op), op.slot.encode()
        disk.exchange(stage.fd, slot, folder, name)
        if not ours.is_(stage.look(op.slot)):
            disk.exchange(stage.fd, slot, folder, name)
            self.keeps = True
            raise StrangerError(f"it was changed meanwhile, twice; the first is kept as {stage.path}/{op.slot}")

    def _demand_in_slot(self, op: Op, wanted: Mark) -> None:
        found = self._stage(op).look(op.slot)
        _demand(wanted, found, is_strict=False)
        if op.whole:
            if not whole.is_as(self._stage(op).fd, op.slot.encode(), op):
                raise StrangerError("something in it was changed meanwhile")
        elif wanted.type is FileType.DIRECTORY and not _is_empty(self._stage(op).fd, op.slot.encode()):
            raise StrangerError("something was put into it meanwhile")

    # directories

    def _prune(self, op: Op) -> bool:
        folder, name = self._at(op)
        try:
            disk.rmdir(name, folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR) and op.is_loose:
                return False  # something that was not chosen, or the user's own, keeps it
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise StrangerError("something was put into it meanwhile") from None
            raise
        self._reals[op.key.root].forget()
        return True

    def _grow(self, op: Op) -> bool:
        """Make a directory again that was pruned: like it, by a new inode."""
        if op.old is None:
            raise StrangerError("what it was is not known")
        folder, name = self._at(op)
        stage, slot, mode = self._stage(op), op.slot.encode(), op.old.mode
        if stage.look(op.slot) is None:
            stage.make(op.slot, Entry(op.old.type, mode, attributes=op.old.attributes))
        fd = os.open(slot, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=stage.fd)
        try:
            disk.chmod(fd, mode | 0o700)
            disk.move(stage.fd, slot, folder, name)
            if mode & 0o700 != 0o700:
                disk.chmod(fd, mode)  # only now: who may not write to it could not have moved it
                disk.fsync(fd)
        except FileExistsError:
            if scan.entry(folder, name).type is FileType.DIRECTORY:
                disk.rmdir(slot, stage.fd)
                return False
            raise StrangerError("something was put there meanwhile") from None
        finally:
            os.close(fd)
        self._fresh.add((op.key.root, op.key.path))
        return True

    def _set_mode(self, op: Op, *, is_forward: bool) -> bool:
        was, wanted = (op.old, op.new) if is_forward else (op.new, op.old)
        if was is None or wanted is None:
            raise StrangerError("what it was is not known")
        self._at(op)
        self.touch(op)
        found = self._reals[op.key.root].look(op.key.path)
        if found is None:
            return False
        if found.type is not FileType.DIRECTORY or (found.inode != was.inode and was.inode):
            raise StrangerError("it was removed or replaced meanwhile")
        if (found.mode, found.attributes) == (wanted.mode, wanted.attributes):
            return True
        if found.mode != was.mode:
            raise StrangerError("its mode was changed meanwhile")
        fd = self._reals[op.key.root].open(op.key.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for attribute, _ in set(was.attributes) - set(wanted.attributes):
                disk.remove_attribute(fd, attribute)
            for attribute, value in wanted.attributes:
                disk.set_attribute(fd, attribute, value)
            disk.chmod(fd, wanted.mode)
        finally:
            os.close(fd)
        return True

    # what lasts

    def touch(self, op: Op) -> None:
        """Have the next `sync` make durable what an operation changes, also what another process did of it."""
        self._touched[(op.key.root, op.key.path.rpartition(b"/")[0])] = None
        if op.act is Act.MODE:
            self._touched[(op.key.root, op.key.path)] = None

    def sync(self) -> None:
        """Make the directories of real trees durable whose entries changed, and with them the other halves, in the stages."""
        if not self._touched:
            return
        if len(self._touched) > _MANY:
            for root in {root for root, _ in self._touched}:
                disk.syncfs(self._reals[root].fd)
        else:
            for root, folder in self._touched:
                self._sync_folder(root, folder)
        self._touched.clear()
        self._fresh.clear()

    def _sync_folder(self, root: int, folder: bytes) -> None:
        try:
            disk.sync_folder(self._reals[root].folder(folder))
        except PermissionError:
            disk.syncfs(self._reals[root].fd)  # a directory that its owner may not read
        except OSError as error:
            if error.errno not in _NO_PATH:
                raise

    def found(self, ops: Iterable[tuple[int, Op]]) -> dict[int, Mark | None]:
        """Return what stands at the operations' paths now."""
        seen: dict[int, Mark | None] = {}
        for number, op in ops:
            entry = self._reals[op.key.root].look(op.key.path, attributes=False)
            seen[number] = mark(entry) if entry is not None else None
        return seen

    def written_behind(self, ops: Iterable[tuple[int, Op]]) -> dict[int, str]:
        """Return operations whose replaced content somebody wrote to through an old descriptor."""
        return {number: "it was written to meanwhile" for number, op in ops if not self._is_kept(op)}

    def _is_kept(self, op: Op) -> bool:
        stage = self._stages[op.key.root]
        return op.old is None or not op.slot or op.act is Act.PRUNE or (stage is not None and op.old.is_(stage.look(op.slot)))


def _demand(wanted: Mark, found: Entry | None, *, is_strict: bool) -> None:
    """Raise StrangerError unless this was found; strictly, nobody may have moved it either."""
    if not (wanted.is_untouched(found) if is_strict and wanted.ctime else wanted.is_(found)):
        raise StrangerError("it was changed meanwhile")


def _is_empty(folder: int, name: bytes) -> bool:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(fd) as entries:
            return next(entries, None) is None
    finally:
        os.close(fd)
