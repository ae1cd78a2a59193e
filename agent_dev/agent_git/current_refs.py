"""The current refs of the agent's git directory."""

from agent_dev.agent_git.refs import _read_all, has_reftable, read_initial_refs
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.session import store


def have_moved(session: store.Session, record: store.Record, environ: dict[str, str]) -> bool:
    """Return whether any ref in a session's repositories differs from the start; if none does, there are no new commits.

    Raises CommandFailed like `read_refs`.
    """
    return any(read_initial_refs(one) != read_refs(one, environ) for one in list_repositories(session, record))


def list_changed_refs(source: AgentRepository, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the branches, tags and other refs that were created, moved or deleted; not HEAD, which names the agent's branch.

    Raises CommandFailed like `read_refs`.
    """
    before, after = read_initial_refs(source), read_refs(source, environ)
    names = sorted({*before, *after} - {"HEAD"})
    return tuple(name for name in names if before.get(name) != after.get(name))


def read_refs(source: AgentRepository, environ: dict[str, str]) -> dict[str, str]:
    """Return all refs of a private git dir and its HEAD: name → object id, or `ref: …` for a symbolic HEAD.

    Raises CommandFailed if the agent converted them to a reftable that the user's git cannot read.
    """
    return _read_all(find_refs_dir(source, environ), source.linked_name)


def find_refs_dir(source: AgentRepository, environ: dict[str, str]) -> str:
    """Return the directory that has the private git dir's refs as files, converted from a reftable. Raises as `read_refs`."""
    if not has_reftable(source.private_dir):
        return source.private_dir
    from agent_dev.agent_git import reftable  # it runs git, which is not imported before an agent starts

    return reftable.convert_to_files(source, environ)
