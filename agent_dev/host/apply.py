"""Carry out a merge plan: stage, make durable, exchange, check, keep what was replaced (DESIGN.md section 6).

A replacement is RENAME_EXCHANGE and then a check of what came out, exchanged back when it was not what the plan expects;
additions and removals use NOREPLACE. So no path is ever absent that existed before and after, and what the user did in the
last instant is never overwritten. (The journal that makes a whole merge all-or-nothing is the merge engine's.)
"""

import errno
import os
from dataclasses import dataclass, field
from typing import assert_never

from agent_dev.core.changes import Entry, FileType, Key
from agent_dev.core.merge import SPECIAL_BITS, MakeFolder, MergePlan, Prune, Put, Remove, SetMode, Step
from agent_dev.errors import CannotMerge
from agent_dev.host import files, kernel, scan
from agent_dev.host.remove import remove_tree
from agent_dev.host.stage import Stage, choose

_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


class StrangerError(Exception):
    """What stands at a path is not what the plan expects; its text says what was found."""


@dataclass(slots=True)
class Applied:
    """What a merge did: taken keys, those that a stranger kept from it, kept things by key."""

    taken: list[Key] = field(default_factory=list)
    stopped: dict[Key, str] = field(default_factory=dict)
    kept: dict[Key, str] = field(default_factory=dict)


@dataclass(slots=True)
class Grounds:
    """Where a merge happens: uppers and real trees by root, places for staging, the merge's own folder."""

    uppers: tuple[files.Tree, ...]
    reals: tuple[files.Tree, ...]
    places: tuple[tuple[str, ...], ...]  # for each root, candidates for staging
    folder: str  # merges/<id>


def apply(plan: MergePlan, grounds: Grounds) -> Applied:
    """Merge. Raises CannotMerge before anything was touched, and OSError when what was done cannot be made durable.

    A disk that fails in the middle ends it: what was not done is in `stopped`.
    """
    work = _Work(grounds)
    try:
        work.stage(plan)
        for step in plan.steps:
            if work.has_failed:
                work.done.stopped[step.key] = "not tried: the disk had failed before"
            else:
                work.carry_out(step)
        work.close_folders()
        work.settle()
    finally:
        work.close()
    stopped = work.done.stopped
    work.done.taken = [key for key in plan.taken if key not in stopped]
    return work.done


class _Work:
    def __init__(self, grounds: Grounds) -> None:
        self.grounds = grounds
        self.done = Applied()
        self.stages: dict[int, Stage] = {}
        self.staged: dict[Key, bytes] = {}
        self.touched: dict[tuple[int, bytes], None] = {}
        self.kept = f"{grounds.folder}/replaced"
        self.count = 0  # of what lies there
        self.has_failed = False  # the disk: no further step
        self.closed: list[tuple[Key, int, int]] = []  # new directories, their inodes and the modes that shut their owner out

    # staging

    def stage(self, plan: MergePlan) -> None:
        try:
            for step in plan.steps:
                stage = self._stage(step.key.root)
                if isinstance(step, Put):
                    self.staged[step.key] = stage.add(self.grounds.uppers[step.key.root], step.key.path, step.after)
            for stage in self.stages.values():
                stage.settle()
        except OSError as error:
            raise CannotMerge(path=error.filename or "staging", reason=f"{error.strerror}; nothing was changed") from error

    def _stage(self, root: int) -> Stage:
        if root not in self.stages:
            place = choose(self.grounds.places[root], self.grounds.reals[root])
            if place is None:
                raise CannotMerge(path=self.grounds.reals[root].path, reason="no place from which a rename reaches it")
            self.stages[root] = Stage(place)
        return self.stages[root]

    def close(self) -> None:
        for stage in self.stages.values():
            stage.close()
            remove_tree(stage.path)

    def settle(self) -> None:
        """Make the directories durable whose entries changed: one syncfs when there are many."""
        if len(self.touched) > 64:
            for root in {root for root, _ in self.touched}:
                kernel.syncfs(self.grounds.reals[root].fd)
            return
        for root, folder in self.touched:
            try:
                files.sync_folder(self.grounds.reals[root].folder(folder))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
                    raise

    # steps

    def carry_out(self, step: Step) -> None:
        try:
            self._do(step)
        except StrangerError as error:
            self.done.stopped[step.key] = str(error)
        except OSError as error:
            self.done.stopped[step.key] = error.strerror or str(error)
            self.has_failed = error.errno in _FATAL

    def _do(self, step: Step) -> None:
        match step:
            case MakeFolder():
                self._make_folder(step)
            case Put():
                self._put(step)
            case Remove():
                self._remove(step)
            case Prune():
                self._prune(step)
            case SetMode():
                self._set_mode(step)
            case _:
                assert_never(step)

    def _at(self, key: Key) -> tuple[files.Tree, int, bytes]:
        """Return the tree, its directory that holds the key, and the name in it."""
        tree = self.grounds.reals[key.root]
        folder, _, name = key.path.rpartition(b"/")
        self.touched[(key.root, folder)] = None
        return tree, tree.folder(folder), name

    def _make_folder(self, step: MakeFolder) -> None:
        _, folder, name = self._at(step.key)
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
            os.chmod(name, step.mode | 0o700, dir_fd=folder)
        except FileExistsError:
            found = scan.entry(folder, name)
            if found.type is not FileType.DIRECTORY:
                raise StrangerError(f"a {found.type} stands where a directory belongs") from None
        else:
            self._close_later(step.key, os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino, step.mode)

    def _close_later(self, key: Key, inode: int, mode: int) -> None:
        if mode & 0o700 != 0o700:
            self.closed.append((key, inode, mode))

    def close_folders(self) -> None:
        """Give new directories the modes under which nothing could have been put into them."""
        for key, inode, mode in reversed(self.closed):
            tree = self.grounds.reals[key.root]
            try:
                fd = tree.open(key.path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue  # the user moved it meanwhile: it is the user's now
            if os.fstat(fd).st_ino == inode:
                os.fchmod(fd, mode)
            os.close(fd)

    def _put(self, step: Put) -> None:
        stage = self.stages[step.key.root]
        own = os.stat(self.staged[step.key], dir_fd=stage.fd, follow_symlinks=False).st_ino
        if step.expect is None:
            self._add(step)
        else:
            self._replace(step, step.expect, own)
        if step.after.type is FileType.DIRECTORY:
            self._close_later(step.key, own, step.after.mode & 0o777)

    def _add(self, step: Put) -> None:
        _, folder, name = self._at(step.key)
        stage = self.stages[step.key.root]
        try:
            kernel.rename(stage.fd, self.staged[step.key], folder, name, kernel.NOREPLACE)
        except FileExistsError:
            raise StrangerError("something was put there meanwhile") from None

    def _replace(self, step: Put, expect: Entry, own: int) -> None:
        tree, folder, name = self._at(step.key)
        stage, ours = self.stages[step.key.root], self.staged[step.key]
        _demand(scan.entry(folder, name), expect)
        kernel.rename(stage.fd, ours, folder, name, kernel.EXCHANGE)
        try:
            _demand(scan.entry(stage.fd, ours), expect, moved=True)
            self._keep(step.key, stage, ours, expect)
        except (StrangerError, OSError):
            if not _is(folder, name, own):
                raise self._aside(stage, ours) from None
            kernel.rename(stage.fd, ours, folder, name, kernel.EXCHANGE)
            raise
        if step.after.type is FileType.DIRECTORY or expect.type is FileType.DIRECTORY:
            tree.forget()

    def _remove(self, step: Remove) -> None:
        tree, folder, name = self._at(step.key)
        _demand(scan.entry(folder, name), step.expect)
        if step.expect.type is FileType.DIRECTORY:
            os.rmdir(name, dir_fd=folder)
            tree.forget()
            return
        stage = self.stages[step.key.root]
        ours = b"gone"
        kernel.rename(folder, name, stage.fd, ours, kernel.NOREPLACE)
        try:
            _demand(scan.entry(stage.fd, ours), step.expect, moved=True)
            self._keep(step.key, stage, ours, step.expect)
        except (StrangerError, OSError):
            try:
                kernel.rename(stage.fd, ours, folder, name, kernel.NOREPLACE)
            except OSError:
                raise self._aside(stage, ours) from None
            raise

    def _prune(self, step: Prune) -> None:
        tree, folder, name = self._at(step.key)
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                raise
            return  # something that was not chosen, or the user's own, keeps it
        tree.forget()

    def _set_mode(self, step: SetMode) -> None:
        tree, _, _ = self._at(step.key)
        fd = tree.open(step.key.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if os.fstat(fd).st_mode & 0o7777 != step.expect.mode:
                raise StrangerError("its mode was changed meanwhile")
            # 07000 bits are never merged, and never taken from what has them and keeps them.
            os.fchmod(fd, step.after.mode & (0o777 | (step.expect.mode & SPECIAL_BITS)))
            for attribute, _ in set(step.expect.attributes) - set(step.after.attributes):
                os.removexattr(fd, attribute)
            for attribute, value in step.after.attributes:
                os.setxattr(fd, attribute, value)
        finally:
            os.close(fd)

    def _keep(self, key: Key, stage: Stage, name: bytes, expect: Entry) -> None:
        """Keep what was replaced below merges/<id>/replaced, under a number that merge.json names."""
        if expect.type is FileType.DIRECTORY:
            os.rmdir(name, dir_fd=stage.fd)  # raises for one that somebody put something into
            return
        self.done.kept[key] = self._save(stage, name, expect)

    def _aside(self, stage: Stage, name: bytes) -> StrangerError:
        """Keep what the user saved in the last instant, where a still later save has taken its place."""
        number = self._save(stage, name, scan.entry(stage.fd, name))
        return StrangerError(f"it was changed meanwhile, twice; the first is kept as {self.kept}/{number}")

    def _save(self, stage: Stage, name: bytes, entry: Entry) -> str:
        """Move something from the stage to what is kept; return its number there."""
        os.makedirs(self.kept, 0o700, exist_ok=True)
        number = str(self.count)
        self.count += 1
        place = os.open(self.kept, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if entry.type is FileType.FILE and os.stat(name, dir_fd=stage.fd, follow_symlinks=False).st_nlink > 1:
                self._keep_copy(stage, name, place, number.encode(), entry)  # its twins can still be written to
            else:
                self._move(stage, name, place, number.encode(), entry)
        finally:
            os.close(place)
        return number

    def _move(self, stage: Stage, name: bytes, place: int, number: bytes, entry: Entry) -> None:
        try:
            kernel.rename(stage.fd, name, place, number, kernel.NOREPLACE)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._keep_copy(stage, name, place, number, entry)

    @staticmethod
    def _keep_copy(stage: Stage, name: bytes, place: int, number: bytes, entry: Entry) -> None:
        source = files.Tree(stage.path)
        copies = Stage(f"/proc/self/fd/{place}", first=10**9)  # names that no kept thing has
        try:
            made = copies.add(source, name, entry)
            copies.settle()
            os.rename(made, number, src_dir_fd=copies.fd, dst_dir_fd=place)
            os.unlink(name, dir_fd=stage.fd)
        finally:
            copies.close()
            source.close()


def _is(folder: int, name: bytes, inode: int) -> bool:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino == inode
    except FileNotFoundError:
        return False


def _demand(found: Entry, expect: Entry, *, moved: bool = False) -> None:
    """Raise StrangerError unless this is what the plan expects; a rename has changed the ctime of what moved."""
    same = (
        (found.type, found.inode, found.size, found.mtime) == (expect.type, expect.inode, expect.size, expect.mtime)
        if moved
        else found.identity == expect.identity
    )
    if found.type is FileType.DIRECTORY and expect.type is FileType.DIRECTORY:
        same = True  # its entries were the plan's to change; rmdir tells whether it is empty
    if not same:
        raise StrangerError("it was changed meanwhile")
