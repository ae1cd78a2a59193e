"""The request for a lower snapshot."""

from agent_dev.fs.entry import parents_of
from agent_dev.value import Value


class SnapshotRequest(Value):
    """A request: the roots, the first root's git directory (or ""), the git program (or "") and the user's environment."""

    roots: tuple[str, ...]
    git: str = ""
    program: str = ""
    environ: dict[str, str] = {}  # noqa: RUF012  (Value: a default, never written to)
    touched: tuple["PriorChanges", ...] = ()  # of a resumed session, by root: there the older snapshot stays valid
    skip: tuple[bytes, ...] = (b".git",)  # top-level names that are not recorded
    since: int = 0  # start of the agent, in ns since 1970: paths that changed later have no base version


class PriorChanges(Value):
    """The paths in an upper layer before a session was resumed, and those of them that hide everything below them."""

    paths: frozenset[bytes] = frozenset()
    hiding: frozenset[bytes] = frozenset()

    def includes(self, path: bytes) -> bool:
        """Return whether the agent had changed a path, or hidden it."""
        return path in self.paths or (bool(self.hiding) and not self.hiding.isdisjoint(parents_of(path)))
