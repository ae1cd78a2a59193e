"""List discarded sessions and restore them from the trash."""

import os

from agent_dev.errors import NoSession, SessionBusy, UnknownSession, UnreadableSession
from agent_dev.quick_dataclass import replace
from agent_dev.session import removal, sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession


def list_discarded(session_store: store.Store) -> tuple[ListedSession, ...]:
    """Return the discarded sessions, oldest first, without unreadable entries."""
    found = []
    for session in store.all_sessions(session_store, session_store.trash):
        try:
            found.append(ListedSession(session, store.read_record(session), store.DISCARDED))
        except UnreadableSession:
            continue  # an old home, or a session that was killed before it had a record
    return tuple(found)


def find_discarded(context: CommandContext, name: str) -> ListedSession:
    """Return the discarded session of that id or name, else the newest of this repository. Raises UnknownSession, NoSession."""
    everything = list_discarded(context.store)
    if name:
        one = sessions.match_session(everything, name, context.root)
        if one is None:
            raise UnknownSession(name=f"{name} in the trash", hint="agent-dev sessions --all lists discarded sessions")
        return one
    own = [one for one in everything if store.has_root(one.record, context.root)]
    if not own:
        raise NoSession(root=context.root, state="discarded", hint="agent-dev sessions --all lists those of other repositories")
    return own[-1]


def undiscard(context: CommandContext, one: ListedSession) -> ListedSession:
    """Move a session out of the trash and return it, without its name if an open one has that now. Raises SessionBusy."""
    locked = store.lock_session(one.session)
    try:
        if os.path.lexists(f"{context.store.sessions}/{locked.id}"):
            raise SessionBusy(session=one.name, what="there already", hint="agent-dev sessions --all lists it")
        record: store.Record = {**one.record, "state": _state_before(one.record)}
        record.pop("discarded_as", None)
        if record["state"] != store.MERGED and _is_name_in_use(context, record):
            record["name"] = ""
        store.write_record(locked, record, is_durable=True)  # first: in the trash it counts as discarded in any case
        return ListedSession(removal.move_from_trash(context.store, locked), record, record["state"])
    finally:
        store.unlock_session(locked)


def _is_name_in_use(context: CommandContext, record: store.Record) -> bool:
    """Return whether an open session of the same repository has the name of this one."""
    name = record["name"]
    return bool(name and sessions.open_with_name(replace(context, root=record["root"]), name))


def _state_before(record: store.Record) -> str:
    """Return the state to restore; the record still has it if the command that discarded the session was killed."""
    return store.MERGED if record["state"] == store.MERGED else record.get("discarded_as") or store.WAITING
