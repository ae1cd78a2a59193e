"""Changes to refs and the index, as values."""

from typing import Self

from agent_dev.git.formats.packed_blobs import Blob, PackedBlobs, pack_blobs
from agent_dev.quick_dataclass import dataclass

NO_ENTRY: Blob = (0, "")  # the mode and id of a path that is not in the index


@dataclass(frozen=True, slots=True)
class RefUpdate:
    """An update of one of the user's refs. Ids in hex, "" for none."""

    name: str
    old: str
    new: str

    def reversed(self) -> "RefUpdate":
        """Return the reverse update."""
        return RefUpdate(self.name, self.new, self.old)


class IndexUpdate(PackedBlobs):
    """An update of a path in the user's index. Raises ValueError as `pack_blobs` does."""

    __slots__ = ()
    FIELDS = ("path", "old", "new")

    def __new__(cls, path: bytes, old: Blob, new: Blob) -> Self:
        """Pack the values."""
        return super().__new__(cls, pack_blobs(old, new, path))

    @property
    def path(self) -> bytes:
        """The path in the work tree."""
        return self.rest


@dataclass(frozen=True, slots=True)
class GitUpdate:
    """A merge's changes to one of the user's repositories: refs, updated last by compare-and-swap, and the index.

    After a crash, the refs decide whether the merge happened. `index_operation`: number of the operation that replaces the index,
    -1 for none; `index_updates`: its changed entries. `root`: the number of the root that is the work tree.
    """

    folder: str
    program: str
    environ: tuple[tuple[str, str], ...]
    refs: tuple[RefUpdate, ...]
    index_operation: int = -1
    index_updates: tuple[IndexUpdate, ...] = ()
    imported_branch: tuple[str, str] = ("", "")  # the agent's ref that was imported entirely, and its commit
    root: int = 0
    imported_commits: tuple[str, ...] = ()  # the agent's commits that were imported one by one
    declined_commits: tuple[str, ...] = ()  # the agent's commits that the user does not want
