"""Copy an ended session: a second session with the same files, commits and logs, which can be resumed and merged on its own.

The copy has no record until it is complete and durable. Until then it is listed nowhere, and the next command removes it if this
one is killed. Checkpoints and a saved selection are not copied.
"""

import os
import shutil

from agent_dev.config.options import RunOptions
from agent_dev.errors import Refused
from agent_dev.fs import disk_usage
from agent_dev.git import object_links
from agent_dev.overlay.labels import format_size
from agent_dev.run.ended.copy_layer import copy_directory, copy_tree_exactly
from agent_dev.session import removal, session_names, store, uppers
from agent_dev.session.sessions import CommandContext, ListedSession

_LOGS = ("commands.jsonl", "events.jsonl", "network.jsonl")
_OBJECTS_LIST = "objects.elsewhere"  # names hard-linked objects on another file system
_NOT_COPIED = ("init", "life", "resumed", "undone", "attempt")


def fork_session(context: CommandContext, listed: ListedSession, name: str) -> ListedSession:
    """Copy an ended session that is locked. Raises AgentDevError; nothing of the copy is left then."""
    _refuse(listed)
    claim = _claim_name(context, listed.record, name)
    try:
        copy = store.create_session(context.store)
        try:
            _require_space(listed)
            return _fill(listed, copy, name)
        except BaseException:
            removal.remove_session_now(copy.replace(lock=-1))
            raise
        finally:
            store.unlock_session(copy)
    finally:
        if claim >= 0:
            os.close(claim)


def _refuse(listed: ListedSession) -> None:
    if store.is_direct(listed.record):
        raise Refused(message=f"session {listed.name} ran in the real tree: there is nothing to copy")
    if listed.record["state"] == store.MERGED:
        raise Refused(message=f"session {listed.name} is merged: there is nothing to copy", hint="agent-dev sessions")


def _claim_name(context: CommandContext, record: store.Record, name: str) -> int:
    if not name:
        return -1
    options = RunOptions(name=name, directory=str(record["cwd"]))
    return session_names.claim_name(context.store.path, record["root"], options, context.environ)


def _require_space(listed: ListedSession) -> None:
    folder = listed.session.folder
    parts = [
        *(listed.session.root(number, "").upper for number in range(len(listed.record["roots"]))),
        *_plain_directories(folder),
    ]
    needed = sum(map(disk_usage.disk_usage, parts))
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if needed > free:
        message = f"a copy of session {listed.name} needs {format_size(needed)}, but {format_size(free)} are free in {folder}"
        raise Refused(message=message, hint="agent-dev clean")


def _plain_directories(folder: str) -> list[str]:
    return [path for name in ("git", "base") if os.path.isdir(path := f"{folder}/{name}")]


def _fill(listed: ListedSession, copy: store.Session, name: str) -> ListedSession:
    source, record = listed.session, listed.record
    trees = uppers.open_trees(source, len(record["roots"]))
    try:
        for number, tree in enumerate(trees):
            target = store.add_root(copy, number, tree.path)
            mode = os.stat(target.upper).st_mode & 0o7777
            copy_tree_exactly(tree, target.upper)
            os.chmod(target.upper, mode)
    finally:
        uppers.close_trees(source, trees)
    removal.remove_work_directories(copy)
    for path in _plain_directories(source.folder):
        copy_directory(path, f"{copy.folder}/{os.path.basename(path)}")
    for log in _LOGS:
        _copy_file(f"{source.folder}/{log}", f"{copy.folder}/{log}")
    copied = _copied_record(record, source, copy, name)
    store.write_record(copy, copied, is_durable=True)
    store.sync_record(copy)
    return ListedSession(copy.replace(lock=-1), copied, copied["state"])


def _copy_file(source: str, target: str) -> None:
    """Copy a log, if there is one."""
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        return
    os.chmod(target, 0o600)


def _copied_record(record: store.Record, source: store.Session, copy: store.Session, name: str) -> store.Record:
    options = {key: value for key, value in record["options"].items() if key != "name"} | ({"name": name} if name else {})
    copied: store.Record = {
        **record,
        "state": store.WAITING,
        "name": name,
        "forked": True,
        "options": options,
        "stores": _link_stores(record["stores"], source, copy),
        "large": _link_stores(record.get("large", []), source, copy),
        "bound": [[path.replace(source.folder, copy.folder, 1), inside] for path, inside in record.get("bound", [])],
    }
    for key in _NOT_COPIED:
        copied.pop(key, None)  # type: ignore[misc]  # all are optional
    return copied


def _link_stores(stores: list[list[str]], source: store.Session, copy: store.Session) -> list[list[str]]:
    return [[_link_store(outside, source, copy), inside] for outside, inside in stores]


def _link_store(path: str, source: store.Session, copy: store.Session) -> str:
    """Hard-link the objects of one store for the copy, next to those of the source; return the new path."""
    folder, name = os.path.split(path)
    if folder == f"{source.folder}/objects":
        target = f"{copy.folder}/objects/{name}"
    elif name.startswith(f"{source.id}-"):
        target = f"{folder}/{copy.id}{name[len(source.id) :]}"
        object_links.append_to_list(f"{copy.folder}/{_OBJECTS_LIST}", target)
    else:
        return path  # the user's own store
    os.makedirs(target, 0o700)
    object_links.link_directory(path, target)
    return target
