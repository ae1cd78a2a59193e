"""The history of a session: its events, its agent's commands, and the changes between checkpoints."""

from typing import TYPE_CHECKING

from agent_dev.checkpoint import checkpoint_store, restore_plan
from agent_dev.checkpoint.checkpoint_store import Checkpoint
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import events as logs
from agent_dev.session import store
from agent_dev.session.events import LogContents
from agent_dev.session.sessions import ListedSession

if TYPE_CHECKING:
    from agent_dev.checkpoint.restore_plan import Node


@dataclass(frozen=True, slots=True)
class CheckpointChanges:
    """A checkpoint and the paths that differ from the previous one; in further roots with the tree's name.

    The agent's git directory is omitted.
    """

    checkpoint: Checkpoint
    paths: tuple[str, ...]


def read_events(one: ListedSession) -> LogContents:
    """Return the events of a session, oldest first."""
    return logs.read_events(one.session, store.read_record(one.session))


def read_commands(one: ListedSession) -> LogContents:
    """Return the commands that its agent started, oldest first."""
    return logs.read_commands(one.session, store.read_record(one.session))


def read_connections(one: ListedSession) -> LogContents:
    """Return the connections that programs in its sandbox made or tried with `net: allow`, oldest first."""
    return logs.read_connections(one.session, store.read_record(one.session))


def read_changes(one: ListedSession) -> tuple[CheckpointChanges, ...]:
    """Return the changes from checkpoint to checkpoint, oldest first, without damaged ones."""
    found = []
    before: dict[str, dict[str, Node]] = {}
    for about in checkpoint_store.list_readable(one.session):
        now = checkpoint_store.read_tables(one.session, about)
        paths = []
        for name, table in now.items():
            paths += checkpoint_store.shown_paths(name, restore_plan.changed_paths(before.get(name, {}), table))
        found.append(CheckpointChanges(about, tuple(paths)))
        before = now
    return tuple(found)
