"""What became of a session: its events, its agent's commands, and what changed from checkpoint to checkpoint."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_dev.checkpoint import checkpoint_store as checkpoints
from agent_dev.checkpoint import restore_plan as history
from agent_dev.checkpoint.checkpoint_store import About
from agent_dev.session import events as logs
from agent_dev.session import store
from agent_dev.session.events import Told
from agent_dev.session.sessions import Listed

if TYPE_CHECKING:
    from agent_dev.checkpoint.restore_plan import Node


@dataclass(frozen=True, slots=True)
class Changed:
    """A checkpoint and the paths that are not as in the one before it; those of a further root with their tree's name.

    What is below the agent's git directory is left out.
    """

    about: About
    paths: tuple[str, ...]


def events(one: Listed) -> Told:
    """Return what became of a session, oldest first."""
    return logs.read(one.session, store.read(one.session))


def commands(one: Listed) -> Told:
    """Return what its agent started, oldest first."""
    return logs.commands(one.session, store.read(one.session))


def changes(one: Listed) -> tuple[Changed, ...]:
    """Return what changed from checkpoint to checkpoint, oldest first; damaged ones are left out."""
    found = []
    before: dict[str, dict[str, Node]] = {}
    for about in checkpoints.whole(one.session):
        now = checkpoints.tables(one.session, about)
        paths = []
        for name, table in now.items():
            if name.startswith("git-"):
                continue
            prefix = "" if name == checkpoints.FIRST else f"{name}:"
            paths += [prefix + path for path in history.changed(before.get(name, {}), table) if path and not _is_git(path)]
        found.append(Changed(about, tuple(paths)))
        before = now
    return tuple(found)


def _is_git(path: str) -> bool:
    return path == ".git" or path.startswith(".git/")
