"""The current refs of the agent's git directory."""

from agent_dev.agent_git.refs import _linked_name, _read_all, find_private_git_dir, has_reftable, read_initial_refs
from agent_dev.session import store


def list_changed_refs(session: store.Session, record: store.Record, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the branches, tags and other refs that were created, moved or deleted; not HEAD, which names the agent's branch.

    Raises CommandFailed like `read_refs`.
    """
    before, after = read_initial_refs(session), read_refs(session, record, environ)
    names = sorted({*before, *after} - {"HEAD"})
    return tuple(name for name in names if before.get(name) != after.get(name))


def read_refs(session: store.Session, record: store.Record, environ: dict[str, str]) -> dict[str, str]:
    """Return all refs of the private git dir and its HEAD: name → object id, or `ref: …` for a symbolic HEAD.

    Raises CommandFailed if the agent converted them to a reftable that the user's git cannot read.
    """
    folder = find_refs_dir(session, record, environ)
    return {} if folder is None else _read_all(folder, _linked_name(record))


def find_refs_dir(session: store.Session, record: store.Record, environ: dict[str, str]) -> str | None:
    """Return the directory that has the private git dir's refs as files, converted from a reftable. Raises as `read_refs`."""
    folder = find_private_git_dir(session, record)
    if folder is None or not has_reftable(folder):
        return folder
    from agent_dev.agent_git import reftable  # it runs git, which is not imported before an agent starts

    return reftable.convert_to_files(session, record, folder, environ)
