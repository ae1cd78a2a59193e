"""The branches of a session that were imported by merges that are still applied; they are not offered again."""

import os

from agent_dev.fs.state_files import list_names
from agent_dev.merge_engine import journal_file
from agent_dev.merge_engine.journal_codec import CorruptJournalError
from agent_dev.session import store


def read_imported_branches(session: store.Session) -> dict[str, str]:
    """Return the agent's imported refs and the commits that they pointed to at that time."""
    merges = f"{os.path.dirname(os.path.dirname(session.folder))}/merges"
    found = {}
    for name in sorted(name for name in list_names(merges) if name.startswith(f"{session.id}.")):
        try:
            journal = journal_file.read_journal(f"{merges}/{name}")
        except (CorruptJournalError, OSError):
            continue  # `agent-dev merges` reports it
        if journal.git_side is not None and journal.git_side.imported_branch[0] and journal.is_applied:
            found[journal.git_side.imported_branch[0]] = journal.git_side.imported_branch[1]
    return found
