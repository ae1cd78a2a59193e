"""What the merge screen needs to know of a session, and nothing of where it comes from."""

from typing import Protocol

from agent_dev.core.changes import ChangeSet, Key

Content = tuple[bytes | None, bytes | None]


class Source(Protocol):
    """A session that has ended, ready to be looked at."""

    @property
    def session(self) -> str:
        """Its id or name."""
        ...

    @property
    def root(self) -> str:
        """The path shown in the title."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """The paths of all roots, in the order of `Key.root`."""
        ...

    @property
    def command(self) -> tuple[str, ...]:
        """What ran."""
        ...

    @property
    def changes(self) -> ChangeSet:
        """What it left."""
        ...

    @property
    def commits(self) -> tuple[tuple[str, str], ...]:
        """Id and subject of what the agent committed."""
        ...

    def content(self, key: Key) -> Content:
        """Return the base's and the agent's bytes of a change, a link's target; None where there is nothing to show.

        May be slow, and is called on a worker thread, one call at a time. May raise AgentDevError or OSError.
        """
        ...
