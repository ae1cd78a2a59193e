"""Restore the real tree to its state before an agent worked in it, by a session whose changes lead back (decision 0021)."""

import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, count
from typing import NamedTuple

from agent_dev.direct import overlay_attributes, unlocked_root
from agent_dev.direct.direct_run import AFTER_FOLDER, RunSnapshot, lock_if_free, read_root_attributes
from agent_dev.errors import AgentDevError, UsageError
from agent_dev.fs import acl, copytree, dir_tree, durable, snapshot_names, unreadable, walk
from agent_dev.fs.entry import Entry, FileType, parents_of
from agent_dev.fs.unlocked_directories import UnlockedDirectories
from agent_dev.git import nested_repositories
from agent_dev.merge import merge
from agent_dev.merge.review import Review, open_restore_review
from agent_dev.merge_engine.merge_plan import MergePlan
from agent_dev.overlay import selection
from agent_dev.overlay.lower_snapshot import LowerSnapshot
from agent_dev.quick_dataclass import replace
from agent_dev.session import removal, sessions, store
from agent_dev.session.sessions import CommandContext

_NOT_RESTORABLE = (FileType.SOCKET, FileType.DEVICE)


def open_restore(run_snapshot: RunSnapshot, paths: tuple[str, ...], context: CommandContext) -> Review:
    """Create and open a session whose changes lead back to a snapshot; they are then merged.

    `paths`: only these and everything below them. The user's changes since the run are merged if possible, else they are
    conflicts. The session is locked; the caller closes the review and unlocks it.
    """
    session = store.create_session(context.store)
    try:
        root = store.add_root(session, 0, run_snapshot.root)
        wanted = tuple(_path_below(path, run_snapshot.root, context) for path in paths)
        with _opened_root(run_snapshot) as real:
            unrestorable = _write_changes(run_snapshot, root.upper, real, wanted)
            if os.path.isdir(f"{run_snapshot.folder}/{AFTER_FOLDER}"):
                shutil.copytree(f"{run_snapshot.folder}/{AFTER_FOLDER}", session.lower_snapshot)
            store.write_record(session, _record(run_snapshot, context))
            store.sync_record(session)
            review = open_restore_review(session, context.environ, real.unlocked)
        review.changes = replace(review.changes, problems=(*review.changes.problems, *unrestorable))
        return review
    except BaseException:
        removal.remove_session_now(session)
        raise


@contextmanager
def _opened_root(run_snapshot: RunSnapshot) -> Iterator[dir_tree.Tree]:
    """Open the real tree; directories that keep their owner out may be unlocked, unless the agent still runs."""
    lock = lock_if_free(run_snapshot)
    real = dir_tree.Tree(run_snapshot.root)
    try:
        if lock is not None:
            unlocked_root.allow_unlocking(real, run_snapshot.folder)
        try:
            yield real
        finally:
            unlocked_root.lock_again(real, run_snapshot.folder)
    finally:
        real.close()
        if lock is not None:
            os.close(lock)


def apply_restore(review: Review, context: CommandContext, notice: merge.Notify, *, is_dry: bool) -> merge.MergeResult:
    """Restore as much as possible; conflicts stay in the session, to be resolved by `merge --resolve`."""
    planned = _plan_everything(review)
    return merge.preview(review, planned) if is_dry else merge.apply_plan(review, planned, context.store, notice)


def _plan_everything(review: Review) -> MergePlan:
    keys = frozenset(change.key for change in review.changes.changes)
    return merge.plan_selection(review, selection.select(selection.EMPTY_SELECTION, keys, review.changes), keys)


def restore_attributes(
    review: Review, result: merge.MergeResult, run_snapshot: RunSnapshot, paths: tuple[str, ...], context: CommandContext
) -> None:
    """Set overlay attributes that existed before the run and are missing; add those that cannot be set to the problems.

    `paths`: only these and everything below them. No merge changes such attributes. One that was set on a file that `result`
    applied would look like an edit of the user, and prevent an undo.
    """
    wanted = tuple(_path_below(path, run_snapshot.root, context) for path in paths) or (b"",)
    applied = {change.key.path for change in result.applied if change.after and change.after.type is FileType.FILE}
    missing = overlay_attributes.missing_attributes(
        run_snapshot.root, run_snapshot.overlay_attributes, skip=run_snapshot.skipped_names
    )
    missing = [one for one in missing if any(_is_below(os.fsencode(one[0]), path) for path in wanted)]
    failed = [one for one in missing if os.fsencode(one[0]) in applied]
    failed += overlay_attributes.set_attributes(run_snapshot.root, [one for one in missing if one not in failed])
    problems = (f"{path or '.'}: the attribute user.overlay.{name} cannot be restored" for path, name, _ in failed)
    review.changes = replace(review.changes, problems=(*review.changes.problems, *problems))


def _record(run_snapshot: RunSnapshot, context: CommandContext) -> store.Record:
    names = (f"restore-{run_snapshot.id}{suffix}" for suffix in chain([""], (f"-{number}" for number in count(2))))
    here = replace(context, root=run_snapshot.root)
    return {
        **store.BLANK,
        "state": store.WAITING,
        "name": next(name for name in names if not sessions.all_with_name(here, name)),
        "root": run_snapshot.root,
        "roots": [run_snapshot.root],
        "cwd": run_snapshot.root,
        "profile": "default",
        "command": ["restore", run_snapshot.id],
        "is_restore": True,
        "started": time.time_ns(),
        "launched": run_snapshot.ended or run_snapshot.started,
    }


def _path_below(path: str, root: str, context: CommandContext) -> bytes:
    full = os.path.normpath(os.path.join(context.cwd, path))
    if full != root and not full.startswith(root + "/"):
        raise UsageError(message=f"{path} is outside {root}", hint="agent-dev restore --dry-run lists the changes")
    return os.fsencode(full[len(root) + 1 :])


def _write_changes(run_snapshot: RunSnapshot, upper: str, real: dir_tree.Tree, wanted: tuple[bytes, ...]) -> tuple[str, ...]:
    """Write the changes into an upper, as if an agent had made them; return the paths that cannot be restored, and why."""
    source, target = dir_tree.Tree(run_snapshot.snapshot.path), dir_tree.Tree(upper, is_ours=True)
    after = LowerSnapshot(f"{run_snapshot.folder}/{AFTER_FOLDER}")
    try:
        writer = _UpperWriter(source, real, target, _RunFacts(run_snapshot.started, after.entries(0)))
        skip = (
            *run_snapshot.skipped_names,
            *map(os.fsencode, {*snapshot_names.snapshots_in(source.path), *snapshot_names.snapshots_in(real.path)}),
        )
        missing = dict(map(_problem, run_snapshot.missing))
        was = _entries(source.path, skip, wanted, missing)
        now = _entries(real.path, skip, wanted, missing, real.unlocked)
        skipped = {
            os.fsencode(one.path) for one in nested_repositories.find_unmoved(run_snapshot.root, run_snapshot.repositories)
        }
        skipped |= missing.keys()
        known = sorted(path for path in was.keys() | now.keys() if skipped.isdisjoint((path, *parents_of(path))))
        for one in wanted:
            if one and not any(_is_below(path, one) for path in known):
                message = f"{os.fsdecode(one)} is neither in the snapshot nor in the repository"
                raise UsageError(message=message, hint="agent-dev restore --dry-run lists the changes")
        unrestorable = [path for path, kind in missing.items() if path not in now or kind not in ("it", f"a {now[path].type}")]
        for path in known:
            if wanted and not any(_is_below(path, one) for one in wanted):
                continue
            before = was.get(path)
            if before is None or before.type not in _NOT_RESTORABLE:
                writer.put(path, before, now.get(path))
            elif path not in now or now[path].type is not before.type:
                unrestorable.append(path)
        writer.close()
        kinds = [(path, missing.get(path, f"a {was[path].type}" if path in was else "it")) for path in unrestorable]
        kinds += _root_differences(run_snapshot, real)
        return tuple(
            f"{os.fsdecode(path) or '.'}: {kind} cannot be restored"
            for path, kind in kinds
            if not wanted or any(_is_below(path, one) for one in wanted)
        )
    finally:
        after.close()
        for tree in (source, target):
            tree.close()


def _root_differences(run_snapshot: RunSnapshot, real: dir_tree.Tree) -> Iterator[tuple[bytes, str]]:
    """Yield what changed in the root's own mode and attributes; an upper has no entry for the root itself."""
    mode = stat.S_IMODE(os.fstat(real.fd).st_mode)
    if run_snapshot.root_mode and mode != run_snapshot.root_mode:
        yield b"", f"its mode is {mode:03o}; the former mode {run_snapshot.root_mode:03o}"
    if run_snapshot.root_attributes is not None:
        was, now = dict(run_snapshot.root_attributes), dict(read_root_attributes(run_snapshot.root))
        for name in sorted(was.keys() | now.keys()):
            if was.get(name) != now.get(name):
                yield b"", f"the attribute {name}"


def _problem(line: str) -> tuple[bytes, str]:
    """Return the path of an entry that is not in a snapshot, and its type, if known."""
    path, _, reason = line.rpartition(": ")
    return os.fsencode(path), reason.removesuffix(" is not copied") if reason.endswith(" is not copied") else "it"


def _is_below(path: bytes, parent: bytes) -> bool:
    return path == parent or path.startswith(parent + b"/") or not parent


def _entries(
    root: str,
    skip: tuple[bytes, ...],
    wanted: tuple[bytes, ...],
    missing: Mapping[bytes, str],
    unlocked: UnlockedDirectories | None = None,
) -> dict[bytes, Entry]:
    """Return the entries of a tree, without the content of unreadable directories that are not in the snapshot.

    Raises AgentDevError for another unreadable entry that is wanted: it would count as deleted.
    """
    problems: list[str] = []
    found = {one.path: one.entry for one in walk.walk(root, skip=skip, problems=problems, opened=unlocked)}
    for problem in problems:
        path = os.fsencode(problem.rpartition(": ")[0])
        if missing.keys() & {path, *parents_of(path)}:
            continue
        if not wanted or any(_is_below(path, one) or _is_below(one, path) for one in wanted):
            raise AgentDevError(message=f"{root}/{problem}; nothing was changed", hint="chmod u+rwx it and try again")
    return found


class _RunFacts(NamedTuple):
    """The facts that show whether an unreadable file changed: the start of the agent, and the tree that it left."""

    started: int
    left: Mapping[bytes, Entry]


class _UpperWriter:
    """Fills an upper path by path, parents first."""

    def __init__(self, source: dir_tree.Tree, real: dir_tree.Tree, target: dir_tree.Tree, seen: _RunFacts) -> None:
        self.source, self.real, self.target, self.seen = source, real, target, seen
        self.copier = copytree.Copier(source, target, is_exact=True)
        self.gone = b"\0"  # the last removed directory
        self.modes: dict[bytes, int] = {}  # of directories, set at the end

    def put(self, path: bytes, was: Entry | None, now: Entry | None) -> None:
        """Restore a path to its former entry."""
        if path.startswith(self.gone + b"/") and was is None:
            return
        folder, _, name = path.rpartition(b"/")
        if was is None:
            self.gone = path
            durable.whiteout(name, self._folder(folder))
        elif now is None or was.type is not now.type or self._differs(path, was, now):
            self._folder(folder)
            self.copier.copy(path, was)
            if was.type is not FileType.DIRECTORY:
                self.gone = path  # with everything in it, if it is a directory now
            if was.type is FileType.DIRECTORY:
                if now is not None and now.type is not FileType.DIRECTORY:
                    copytree.set_directory_attributes(self.target, path, Entry(FileType.DIRECTORY), ("user.overlay.opaque", b"y"))
                self.modes[path] = was.mode

    def close(self) -> None:
        """Set the modes of directories."""
        self.target.close_directories()
        for path, mode in sorted(self.modes.items(), reverse=True):
            copytree.set_directory_mode(self.target, path, mode)

    def _differs(self, path: bytes, was: Entry, now: Entry) -> bool:
        if (was.mode, was.attributes, was.target) != (now.mode, now.attributes, now.target):
            return True
        if was.type is not FileType.FILE:
            return False
        if was.size != now.size or acl.read_below(self.source, path) != acl.read_below(self.real, path):
            return True
        try:
            return not dir_tree.have_same_content(self.source, self.real, path)
        except PermissionError:
            return self._differs_unread(path, now)

    def _differs_unread(self, path: bytes, now: Entry) -> bool:
        """Compare an unreadable file. Making it readable, a last resort, changes the ctime that the agent left."""
        if now.ctime < self.seen.started:
            return False
        recorded = self.seen.left.get(path)
        if recorded is not None and recorded.identity == now.identity:
            return True
        folder, _, name = path.rpartition(b"/")
        with (
            unreadable.made_readable(self.source.directory(folder), os.fsdecode(name)),
            unreadable.made_readable(self.real.directory(folder), os.fsdecode(name)),
        ):
            return not dir_tree.have_same_content(self.source, self.real, path)

    def _folder(self, path: bytes) -> int:
        """Return a directory of the upper, created with the attributes of the real one if it is not restored itself."""
        if not path:
            return self.target.fd
        if self.target.entry_at(path, attributes=False) is None:
            folder, _, name = path.rpartition(b"/")
            entry = self.real.entry_at(path) or Entry(FileType.DIRECTORY, 0o755)
            durable.mkdir(name, self._folder(folder))
            copytree.set_directory_attributes(self.target, path, entry)
            self.modes[path] = entry.mode
        return self.target.directory(path)
