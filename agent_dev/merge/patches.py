"""Write changes of a session as a git patch with renames, and report the changes that git's format cannot represent."""

from collections.abc import Callable, Iterator, Sequence

from agent_dev.fs import read_regular
from agent_dev.fs.entry import FileType, Key
from agent_dev.git.object_id import uses_sha256
from agent_dev.merge.review import Review
from agent_dev.overlay import patch_write
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.fold_renames import fold_changes
from agent_dev.overlay.patch_write import EXACT_FORMAT, PatchFormat
from agent_dev.quick_dataclass import dataclass, field
from agent_dev.session import store

_LARGEST_CONFIG = 1 << 20
PathOf = Callable[[Key], bytes]


@dataclass(slots=True)
class PatchWriter:
    """An iterator over the patches of some changes. It fills `omitted`: paths that no patch contains, with the reason."""

    review: Review
    changes: Sequence[Change]
    path_of: PathOf
    patch_format: PatchFormat = EXACT_FORMAT
    omitted: list[tuple[bytes, str]] = field(default_factory=list)

    def __iter__(self) -> Iterator[bytes]:
        """Yield one patch per path, for a renamed file at its new path."""
        for change in fold_changes(self.changes, self.review.changes.renames):
            try:
                yield self._rename(change) if change.renamed_from else self._copy(change) or self._one(change)
            except OSError as error:
                if not self.review.is_running:
                    raise
                self.omitted.append((self.path_of(change.key), f"it changed while being read: {error.strerror}"))

    def _one(self, change: Change) -> bytes:
        path = self.path_of(change.key)
        before, after = self.review.content(change.key, patch_write.MAX_SIDE_SIZE)
        why = patch_write.omitted_part(change, path, before, after)
        if why and not self._is_implied_by_others(change):
            self.omitted.append((path, why))
        return patch_write.change_patch(change, path, before, after, self.patch_format)

    def _is_implied_by_others(self, change: Change) -> bool:
        """Return whether patches of the files in a directory imply the directory."""
        is_folder = (
            change.after is not None and change.after.type is FileType.DIRECTORY and change.kind is not ChangeKind.METADATA
        )
        start = change.key.path + b"/"
        return is_folder and any(
            one.after is not None and one.key.root == change.key.root and one.key.path.startswith(start) for one in self.changes
        )

    def _copy(self, change: Change) -> bytes:
        """Return the patch of a copied file; b"" if it is not a copy, or if the origin has changed since."""
        origin = change.copied_from
        if origin is None or self.patch_format.with_numbers:  # hunks have numbers, and a copy has no hunks
            return b""
        tree, after = self.review.real_trees[origin.root], self.review.content(change.key)[1]
        before = tree.entry_at(origin.path)
        if before is None or after is None or tree.read(origin.path, len(after)) != after:
            return b""
        return patch_write.copy_patch((self.path_of(origin), self.path_of(change.key)), before, change, after)

    def _rename(self, change: Change) -> bytes:
        before, after = self.review.content(change.key)
        table = self.review.changes.by_key()
        halves = [table[key] for key in (change.renamed_from, change.key) if key is not None]
        if before is None or after is None:  # just deleted
            return b"".join(map(self._one, halves))
        old, new = halves
        return patch_write.rename_patch(
            (self.path_of(old.key), self.path_of(new.key)), old, new, (before, after), self.patch_format
        )


def patch_format_for(record: store.Record, *, is_exact: bool, with_numbers: bool = False) -> PatchFormat:
    """Return the patch format for a session's repository."""
    common = next((git["common"] for git in record["git"]), "")
    config = read_regular.read_regular_file(f"{common}/config", _LARGEST_CONFIG) if common else b""
    return PatchFormat(is_exact=is_exact, is_sha256=uses_sha256(config), with_numbers=with_numbers)
