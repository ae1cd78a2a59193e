"""Pack or thin merged sessions, and remove sessions whose merges can no longer be undone.

A completely merged session stays for `undo`, which restores its changes to it. The newest sessions stay complete; the others
lose data that only another run needs, and that a resume recreates: the agent's private git directory with its objects, and
checkpoints. Sessions with commits, branches or stashes of the agent, which can be imported after an undo, are only thinned: they
lose their checkpoints and caches, and keep the git directory and the lower snapshot in one file. Sessions that wait, run or are
being merged are never touched.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_dev.agent_git import refs
from agent_dev.errors import AgentDevError, SessionBusy, UnreadableSession
from agent_dev.fs import background_removal, durable
from agent_dev.fs.disk_usage import disk_usage
from agent_dev.fs.read_regular import are_real_directories
from agent_dev.fs.rmtree import remove_external_objects
from agent_dev.fs.state_files import list_names
from agent_dev.git import private_copy
from agent_dev.merge_engine import pending_marks
from agent_dev.overlay import lower_snapshot
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import open_transaction, removal, store

if TYPE_CHECKING:
    from agent_dev.session.sessions import CommandContext

_DAY = 86_400 * 10**9  # ns
_MAX_PER_MERGE = 8  # sessions per merge; the next merges process the rest
_MAX_FILES = 3000  # files and directories of the sessions that stay complete: each has a link to every loose object of git
_RECREATABLE = ("objects", "git", "checkpoints", "caches", "asks", "draft.json", "judged.json", "base/index", store.JOIN_SOCKET)
_THINNED_PARTS = ("checkpoints", "caches", "asks", "draft.json", "judged.json", store.JOIN_SOCKET)  # independent of each other
_LINKS = "objects"  # a directory for each object store
_MARK, _DONE = "packing", "packed"
PACKED, REMOVED, THINNED = "packed", "removed", "thinned"


@dataclass(frozen=True, slots=True)
class PackedSession:
    """A merged session that was, or with a dry run would be, packed, thinned or removed (`action`); `size`: the bytes freed."""

    id: str
    action: str
    size: int


def pack_few(where: "CommandContext") -> None:
    """Pack or remove a few merged sessions after a merge. Failures are retried after the next one."""
    try:
        for one, how in _due(where, where.profile.keep_merged_sessions)[:_MAX_PER_MERGE]:
            _pack_or_remove(where, one, how)
    except OSError:
        return  # disk full, or another process works on it


def pack_all(
    where: "CommandContext", *, is_all: bool, is_dry: bool, expired: frozenset[str] = frozenset()
) -> tuple[PackedSession, ...]:
    """Pack, thin and remove all merged sessions that are due, with `is_all` the newest ones too; return them.

    Fewer than `keep_merged_sessions` stay complete if they have too many files, but at least one. `expired`: ids of merges that
    count as removed.
    """
    found = []
    for one, how in _due(where, 0 if is_all else where.profile.keep_merged_sessions, _MAX_FILES, expired):
        size = _size(one, how)
        if is_dry or _pack_or_remove(where, one, how):
            found.append(PackedSession(one.id, how, size))
    return tuple(found)


def finish_packing(session: store.Session) -> None:
    """Finish an interrupted packing; the session is locked."""
    if os.path.lexists(f"{session.folder}/{_MARK}"):
        _pack(session)


def begin_unpacking(session: store.Session) -> None:
    """Record that packed parts are being recreated: until `finish_unpacking`, the next lock holder packs the session again."""
    os.close(os.open(f"{session.folder}/{_MARK}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    durable.sync_path(session.folder)


def finish_unpacking(session: store.Session) -> None:
    """Record that a packed session is complete again; its record says so already."""
    for name in (_DONE, _MARK):
        if os.path.lexists(f"{session.folder}/{name}"):
            os.unlink(f"{session.folder}/{name}")


def _due(
    where: "CommandContext", keep_count: int, max_files: int = 0, expired: frozenset[str] = frozenset()
) -> list[tuple[store.Session, str]]:
    """Return the merged sessions to pack, thin or remove, oldest first. Those that are packed already cost only one lookup.

    `max_files`: the number of files and directories of those that stay complete; 0: it is not looked at.
    """
    merges = {name.rpartition(".")[0] for name in list_names(where.store.merges) if name not in expired}
    under_way = {merge.rpartition(".")[0] for merge in pending_marks.unfinished_merges(where.store)}
    due: list[tuple[store.Session, str]] = []
    whole: list[store.Session] = []
    for one in store.all_sessions(where.store):
        if one.id in under_way or not store.has_in_record(one, (store.MERGED,)):
            continue
        if one.id not in merges and _is_removable(one):
            due.append((one, REMOVED))
        elif not _is_reduced(one) and store.is_merged(one):
            whole.append(one)
    kept = whole[max(len(whole) - keep_count, 0) :]
    old = whole[: len(whole) - (_count_within(kept, max_files) if max_files else len(kept))]
    return [*due, *((one, how) for one in old if (how := _how_to_reduce(one)))]


def _is_reduced(session: store.Session) -> bool:
    return any(os.path.lexists(f"{session.folder}/{name}") for name in (_DONE, store.ARCHIVE))


def _count_within(sessions: list[store.Session], max_files: int) -> int:
    """Return how many of the newest sessions have at most that many files and directories together; at least one."""
    total = 0
    for count, one in enumerate(reversed(sessions)):
        total += sum(len(folders) + len(files) for _, folders, files in os.walk(one.folder))
        if total > max_files and count:
            return count
    return len(sessions)


def _how_to_reduce(session: store.Session) -> str:
    if _has_only_files(session):
        return PACKED
    is_due = any(os.path.lexists(f"{session.folder}/{name}") for name in _THINNED_PARTS) or _archivable_parts(session)
    return THINNED if is_due else ""


def _record(session: store.Session) -> store.Record:
    try:
        return store.read_record(session)
    except UnreadableSession:
        return store.BLANK


def _is_removable(session: store.Session) -> bool:
    """Return whether a session was merged and no merge is left to undo, because its merges expired."""
    record = _record(session)
    return record["state"] == store.MERGED and time.time_ns() - record.get("ended", 0) > _DAY


def _has_only_files(session: store.Session) -> bool:
    """Return whether the agent's git has nothing of its own: no commit, branch, tag or stash. False if unreadable."""
    try:
        record = _record(session)
        return not refs.have_refs_changed(session, record)
    except (AgentDevError, OSError):
        return False


def _pack_or_remove(where: "CommandContext", session: store.Session, how: str) -> bool:
    """Pack or remove a session; return False if it is in use or its merge was just undone."""
    try:
        held = store.lock_session(session)
    except (SessionBusy, OSError):
        return False
    try:
        if not store.is_merged(held):
            return False
        if how == REMOVED:
            background_removal.remove_in_background(background_removal.move_for_removal(where.store.removals_folder, held.folder))
        elif how == THINNED:
            return _thin(held)
        else:
            _pack(held)
        return True
    finally:
        store.unlock_session(held)


def _pack(session: store.Session) -> None:
    """Move out the parts that only a next run needs. The mark lets a later call finish it; every step can be repeated."""
    os.close(os.open(f"{session.folder}/{_MARK}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    durable.sync_path(session.folder)
    record = store.read_record(session)
    own = [number for number in range(len(record["roots"])) if refs.has_private_git_dir(record, number)]
    copies = sorted({*own, *record.get("packed_copies", ())})
    aside = background_removal.make_removal_directory(
        f"{os.path.dirname(os.path.dirname(session.folder))}/gone", f"{session.id}.packed"
    )
    for number in copies:
        _move(f"{session.root(number, '').upper}/.git", f"{aside}/upper-{number}")
    bare: store.Record = {**record, "git": [], "copies": [], "bound": [], "stores": [], "large": []}
    store.write_record(session, {**bare, "packed": True, "packed_copies": copies}, is_durable=True)
    durable.sync_path(session.folder)
    remove_external_objects(session.folder)
    for name in _RECREATABLE:
        _move(f"{session.folder}/{name}", f"{aside}/{name.replace('/', '-')}")
    removal.remove_work_directories(session)
    lower_snapshot.drop_unmerged_contents(session.lower_snapshot)
    os.rename(f"{session.folder}/{_MARK}", f"{session.folder}/{_DONE}")
    background_removal.remove_in_background(aside)


def _thin(session: store.Session) -> bool:
    """Remove the parts that neither an undo nor an import of commits needs, archive the others; return whether anything changed.

    Nothing is changed if a rollback was interrupted.
    """
    marks = ("rollback.pending", "rollback.shown", open_transaction.LINK_NAME)
    if any(os.path.lexists(f"{session.folder}/{name}") for name in marks):
        return False
    aside = background_removal.make_removal_directory(
        f"{os.path.dirname(os.path.dirname(session.folder))}/gone", f"{session.id}.thinned"
    )
    moved = [name for name in _THINNED_PARTS if _move(f"{session.folder}/{name}", f"{aside}/{name}")]
    background_removal.remove_in_background(aside)
    return _archive(session) or bool(moved)


def _archive(session: store.Session) -> bool:
    """Store the git directories and the lower snapshot in one file; return whether that was possible."""
    parts = _archivable_parts(session)
    if not parts:
        return False
    from agent_dev.checkpoint import session_archive  # few agents commit

    is_done = session_archive.store_directories(session, parts, _replaceable_links(session))
    with suppress(OSError):  # links to the objects of submodules are left
        os.rmdir(f"{session.folder}/{_LINKS}")
    return is_done


def _archivable_parts(session: store.Session) -> tuple[str, ...]:
    """Return the directories of a session that an archive can store; none if they are too large or the agent locked a root."""
    from agent_dev.checkpoint import session_archive  # few agents commit

    record = _record(session)
    uppers = [session.root(number, "").upper for number in range(len(record["roots"]))]
    own = [f"{upper}/.git" for number, upper in enumerate(uppers) if refs.has_private_git_dir(record, number)]
    paths = [path for path in (*own, f"{session.folder}/git", session.lower_snapshot) if are_real_directories(path)]
    if not all(os.access(upper, os.W_OK | os.X_OK) for upper in uppers):
        return ()
    sizes = (os.lstat(f"{parent}/{name}").st_size for path in paths for parent, _, names in os.walk(path) for name in names)
    if sum(sizes) > session_archive.MAX_SIZE:
        return ()
    return tuple(path.removeprefix(f"{session.folder}/") for path in paths)


def _replaceable_links(session: store.Session) -> dict[str, str]:
    """Return the directories of hard links that can be made again, and the store of each.

    An archived session borrows these objects from the user's repository. Links of a repository whose number of stores changed
    stay, since their names are numbers.
    """
    present = set(list_names(f"{session.folder}/{_LINKS}"))
    found: dict[str, str] = {}
    for git in _record(session)["git"]:
        stores = private_copy.find_linked_stores(git["common"], str(git["root"]))
        linked = {name for name in present if name == str(git["root"]) or name.startswith(f"{git['root']}.a")}
        if _without_lfs(linked) == _without_lfs(stores):
            found |= {f"{_LINKS}/{name}": store for name, store in stores.items() if name in present}
    return found


def _without_lfs(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.endswith(".lfs")}


def _move(path: str, to: str) -> bool:
    """Rename a file or directory; return False if it is absent, or was moved by an earlier run."""
    try:
        os.rename(path, to)
    except FileNotFoundError:
        return False
    return True


def _size(session: store.Session, how: str) -> int:
    """Return the disk usage of what would be removed, in bytes."""
    if how == REMOVED:
        return disk_usage(session.folder)
    parts = [f"{session.folder}/{name}" for name in (_RECREATABLE if how == PACKED else _THINNED_PARTS)]
    if how == PACKED:
        parts += [f"{session.root(number, '').upper}/.git" for number in range(len(_record(session)["roots"]))]
    elif archived := _archivable_parts(session):
        parts += [f"{session.folder}/{name}" for name in (*archived, *_replaceable_links(session))]
    return sum(disk_usage(path) for path in parts if os.path.lexists(path))
