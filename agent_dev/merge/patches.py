"""Write changes of a session as a git patch with renames, and report the changes that git's format cannot represent."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_dev.errors import AgentDevError
from agent_dev.fs import read_regular
from agent_dev.fs.entry import FileType, Key
from agent_dev.git.object_id import uses_sha256
from agent_dev.merge.review import Review
from agent_dev.overlay import patch_write
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.patch_write import EXACT_FORMAT, PatchFormat
from agent_dev.overlay.renames import Rename, detect_renames
from agent_dev.session import store

MAX_RENAME_FILES = 2_000  # files per side to search for renames
MAX_RENAME_SIZE = 1 << 20  # bytes per file
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
        found = {} if self.patch_format.with_numbers else {one.new: one for one in find_renames(self.review, self.changes)}
        renamed_paths = {one.old for one in found.values()}
        for change in self.changes:
            if change.key in renamed_paths:
                continue
            try:
                yield self._rename(found[change.key]) if change.key in found else self._one(change)
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

    def _rename(self, one: Rename) -> bytes:
        table = self.review.changes.by_key()
        before, after = self.review.content(one.old)[0], self.review.content(one.new)[1]
        old, new = table[one.old], table[one.new]
        if before is None or after is None:  # deleted in this moment
            return self._one(old) + self._one(new)
        return patch_write.rename_patch(
            (self.path_of(one.old), self.path_of(one.new)), old, new, (before, after), self.patch_format
        )


def patch_format_for(record: store.Record, *, is_exact: bool, with_numbers: bool = False) -> PatchFormat:
    """Return the patch format for a session's repository."""
    git = record.get("git")
    config = read_regular.read_regular_file(f"{git['common']}/config", _LARGEST_CONFIG) if git else b""
    return PatchFormat(is_exact=is_exact, is_sha256=uses_sha256(config), with_numbers=with_numbers)


def find_renames(review: Review, changes: Sequence[Change]) -> tuple[Rename, ...]:
    """Find the renames among some changes; none if there are too many files."""
    sides: dict[ChangeKind, list[Change]] = {ChangeKind.DELETED: [], ChangeKind.ADDED: []}
    for change in changes:
        if change.kind in sides and change.type is FileType.FILE and not change.is_ignored and not change.obstacle:
            sides[change.kind].append(change)
    deleted, added = sides[ChangeKind.DELETED], sides[ChangeKind.ADDED]
    if not deleted or not added or max(len(deleted), len(added)) > MAX_RENAME_FILES:
        return ()
    return detect_renames(_bytes(review, deleted, 0), _bytes(review, added, 1))


def _bytes(review: Review, changes: list[Change], side: int) -> dict[Key, bytes]:
    found = {}
    for change in changes:
        entry = change.after or change.before
        if entry is not None and 0 < entry.size <= MAX_RENAME_SIZE:
            try:
                data = review.content(change.key)[side]
            except (AgentDevError, OSError):
                continue  # unreadable files are not renames
            if data is not None:
                found[change.key] = data
    return found
