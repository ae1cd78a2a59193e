"""The branches and commits of a session's repository that were imported or declined by merges that are still applied."""

import os
from collections.abc import Iterator

from agent_dev.agent_git.repositories import AgentRepository
from agent_dev.fs.state_files import list_names
from agent_dev.git.updates import GitUpdate
from agent_dev.merge_engine import journal_file
from agent_dev.merge_engine.journal_codec import CorruptJournalError


def read_imported_branches(source: AgentRepository) -> dict[str, str]:
    """Return the agent's refs that were imported entirely, and the commits that they pointed to at that time."""
    return {git.imported_branch[0]: git.imported_branch[1] for git in _read_updates(source) if git.imported_branch[0]}


def read_imported_commits(source: AgentRepository) -> dict[str, frozenset[str]]:
    """Return the ids of the agent's commits that were imported one by one, by the commit that has them in a branch of yours."""
    updates = [git for git in _read_updates(source) if git.imported_commits and git.refs]
    return {git.refs[0].new: frozenset(git.imported_commits) for git in updates}


def read_declined_commits(source: AgentRepository) -> frozenset[str]:
    """Return the ids of the agent's commits that the user declined."""
    return frozenset(oid for git in _read_updates(source) for oid in git.declined_commits)


def _read_updates(source: AgentRepository) -> Iterator[GitUpdate]:
    session = source.session
    merges = f"{os.path.dirname(os.path.dirname(session.folder))}/merges"
    for name in sorted(name for name in list_names(merges) if name.startswith(f"{session.id}.")):
        try:
            updates = journal_file.read_applied_updates(f"{merges}/{name}")
        except (CorruptJournalError, OSError):
            continue  # `agent-dev merges` reports it
        yield from (git for git in updates if git.folder == source.folder)
