"""Search for the Git LFS contents of imported files."""

from agent_dev.git.formats.lfs_pointer import LfsPointer
from agent_dev.merge.review import Review
from agent_dev.merge_engine import lfs_objects
from agent_dev.merge_engine.merge_plan import ContentSource
from agent_dev.quick_dataclass import dataclass, field


@dataclass(slots=True)
class LfsContentFinder:
    """Possible locations of LFS contents: the user's store, the agent's git dir ("" for none), the agent's work tree."""

    review: Review
    root: int
    storage: str
    git_dir: str
    _found: dict[LfsPointer, ContentSource | None] = field(default_factory=dict)

    def find(self, pointer: LfsPointer, path: bytes) -> ContentSource | None:
        """Return a file whose SHA-256 and size match a pointer; None if there is none."""
        if self._found.get(pointer) is None:
            candidates = [lfs_objects.store_source(self.storage, pointer)]
            if self.git_dir and lfs_objects.has_objects(self.git_dir):
                candidates.append(lfs_objects.git_dir_source(self.git_dir, pointer))
            candidates.append(ContentSource(self.review.upper_trees[self.root].path, path, pointer.oid, is_from_agent=True))
            self._found[pointer] = next(
                (candidate for candidate in candidates if lfs_objects.is_intact(candidate, pointer)), None
            )
        return self._found[pointer]
