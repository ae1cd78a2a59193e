"""Find waiting sessions and interrupted merges at the start of a run."""

from agent_dev.errors import UnreadableSession
from agent_dev.fs.state_files import list_names
from agent_dev.session import store


def waiting_session_names(session_store: store.Store, root: str) -> tuple[tuple[str, ...], bool]:
    """Return the names of the waiting sessions of a root among the newest sessions, and whether there are older sessions.

    Reading the records of all sessions would delay every start by 50 ms for 1,000 of them.
    """
    names = []
    every = store.all_sessions(session_store)
    for session in every[-store.NEWEST :]:
        try:
            record = store.read_record(session)
        except UnreadableSession:
            continue  # `agent-dev sessions` lists it
        state = record.get("state")
        if state == store.RUNNING and not (store.is_locked(session) and store.has_launcher(record)):
            state = store.WAITING  # its launcher was killed
        if store.has_root(record, root) and state == store.WAITING:
            names.append(str(record.get("name") or session.id))
    return tuple(names), len(every) > store.NEWEST


def has_interrupted_merge(session_store: store.Store) -> bool:
    """Return whether a merge is in progress in this state directory, or was when its process was killed."""
    return bool(list_names(session_store.pending))
