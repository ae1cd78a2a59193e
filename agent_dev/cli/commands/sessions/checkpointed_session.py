"""Open a session for a subcommand about its checkpoints."""

from agent_dev.checkpoint import operations
from agent_dev.cli.console import warn
from agent_dev.merge import session_access
from agent_dev.session import sessions, store
from agent_dev.session.sessions import CommandContext, ListedSession


def find_locked(context: CommandContext, name: str) -> tuple[ListedSession, bool]:
    """Return a session, and whether this call locked it: a running session is not locked.

    Raises AgentDevError for one without an overlay.
    """
    one = sessions.find_session(context, name)
    sessions.require_overlay(one)
    return (one, False) if one.state == store.RUNNING else (session_access.lock_ended(one), True)


def report_damaged(one: ListedSession) -> None:
    """Warn about each damaged checkpoint."""
    for number in operations.damaged_numbers(one):
        warn(f"checkpoint {number} is damaged and was skipped")
