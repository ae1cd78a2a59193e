"""Conflicts of commits as changes that can be resolved: yours is the branch's content, the agent's the commit's result."""

from collections.abc import Callable

from agent_dev.commits.report import SYMLINK
from agent_dev.diff import merge3
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.git.bare import BareRepository
from agent_dev.git.blobs import read_blobs
from agent_dev.git.formats.commit_format import Commit
from agent_dev.git.formats.packed_blobs import Blob
from agent_dev.git.merge_tree_conflict import DIRECTORY, GITLINK, NO_BLOB, ConflictResolution, PathConflict
from agent_dev.merge.reconcile import Reconciliation, ThreeVersions, resolve_conflict, resolve_regions
from agent_dev.merge_engine.merge_plan import ReconciledContent
from agent_dev.overlay.changes import Change, ChangeKind, Resolution
from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.sanitize import visible

_FILES = (0o100644, 0o100755)
_SHORT_ID, _MAX_SUBJECTS = 10, 3
_KIND_NAMES = {SYMLINK: "a link", DIRECTORY: "a directory"}


@dataclass(frozen=True, slots=True)
class ConflictDetails:
    """A conflict with the bytes of its sides. `reason`: the reason shown for one with uncommitted changes, not with commits."""

    conflict: PathConflict
    sides: ThreeVersions
    reason: str = ""


def read_sides(repo: BareRepository, conflicts: tuple[PathConflict, ...]) -> tuple[ConflictDetails, ...]:
    """Read the sides of conflicts. Raises CommandFailed."""
    wanted = {
        oid
        for conflict in conflicts
        for mode, oid in (conflict.base, conflict.yours, conflict.agent)
        if oid and mode not in (DIRECTORY, GITLINK)
    }
    texts = read_blobs(repo, sorted(wanted))
    return tuple(
        ConflictDetails(conflict, ThreeVersions(*(texts.get(oid) for _, oid in (conflict.base, conflict.yours, conflict.agent))))
        for conflict in conflicts
    )


def make_change(details: ConflictDetails) -> Reconciliation:
    """Return a conflict as a change, with the merge of its lines if it is one of text."""
    conflict, sides = details.conflict, details.sides
    before, yours, after = (
        _entry(*side) for side in zip((conflict.base, conflict.yours, conflict.agent), _side_bytes(sides), strict=True)
    )
    kind = ChangeKind.DELETED if after is None else ChangeKind.ADDED if before is None else ChangeKind.EDITED
    shown_before = yours if before is after is None else before  # of a deletion, show the deleted content
    change = Change(
        Key(0, conflict.path),
        kind,
        shown_before,
        after,
        conflict=details.reason or (_rename_reason(conflict) if conflict.is_rename_rename else _reason(conflict)),
        yours=yours,
        is_from_commit=True,
    )
    is_lines = sides.is_text and all(mode in _FILES for mode, _ in (conflict.yours, conflict.agent))
    merged = merge3.merge_lines(sides.base or b"", sides.yours or b"", sides.agent or b"") if is_lines else None
    if merged is None or merged.is_clean:
        return Reconciliation(change)
    return Reconciliation(change, ReconciledContent(b"", conflict.mode & 0o777), merged)


def _side_bytes(sides: ThreeVersions) -> tuple[bytes | None, bytes | None, bytes | None]:
    return sides.base, sides.yours, sides.agent


def _entry(blob: Blob, data: bytes | None) -> Entry | None:
    if blob[0] in (DIRECTORY, GITLINK):
        return Entry(FileType.DIRECTORY, 0o755)
    if blob == NO_BLOB or data is None:
        return None
    if blob[0] == SYMLINK:
        return Entry(FileType.SYMLINK, 0o777, len(data), target=data)
    return Entry(FileType.FILE, blob[0] & 0o777, len(data))


SubmoduleLog = Callable[[str, str], tuple[Commit, ...] | None]  # a submodule's log between two commits, None if not available


def add_submodule_log(details: ConflictDetails, log: SubmoduleLog) -> ConflictDetails:
    """Add the commits of each side to a submodule's conflict, as old → new."""
    conflict = details.conflict
    if GITLINK not in (conflict.yours[0], conflict.agent[0]):
        return details
    base = conflict.base[1] if conflict.base[0] == GITLINK else ""
    yours, agent = (_describe_update(base, side, log) for side in (conflict.yours, conflict.agent))
    sides = ThreeVersions(
        *(f"a submodule at {oid}".encode() if oid else None for _, oid in (conflict.base, conflict.yours, conflict.agent))
    )
    return replace(details, sides=sides, reason=f"{details.reason or 'submodule'}: yours {yours}; the agent's {agent}")


def _describe_update(base: str, side: Blob, log: SubmoduleLog) -> str:
    if side[0] != GITLINK:
        return f"{base[:_SHORT_ID]} → deleted"
    commits = log(base, side[1])
    rows = [visible(row.subject) for row in commits or ()]
    subjects = "; ".join((*rows[:_MAX_SUBJECTS], *(["…"] if len(rows) > _MAX_SUBJECTS else []))) or "an older commit"
    return f"{base[:_SHORT_ID] or 'nothing'} → {side[1][:_SHORT_ID]} ({'commits not available' if commits is None else subjects})"


def _rename_reason(conflict: PathConflict) -> str:
    side = "your commits" if conflict.agent == NO_BLOB else "the agent's commit"
    return f"renamed to two names, with conflicting lines; this one has only the lines of {side}"


def _reason(conflict: PathConflict) -> str:
    if NO_BLOB not in (conflict.yours, conflict.agent) and _kind(conflict.yours) != _kind(conflict.agent):
        kinds = (_KIND_NAMES.get(mode, "a file") for mode, _ in (conflict.yours, conflict.agent))
        return "yours is {}, the agent's is {}: b keeps both, one under another name".format(*kinds)
    if conflict.agent == NO_BLOB:
        if conflict.base == NO_BLOB:
            return "renamed: your commits use this name, the agent's commit another"
        return "deleted by the agent's commit, changed by yours"
    if conflict.yours == NO_BLOB:
        if conflict.base == NO_BLOB:
            return "renamed: the agent's commit uses this name, your commits another"
        return "deleted by your commits, changed by the agent's"
    return "changed by your commits and the agent's" if conflict.base != NO_BLOB else "added by your commits and the agent's"


def _kind(blob: Blob) -> int:
    return blob[0] & 0o170000


def resolve_commit_conflict(
    details: ConflictDetails, reconciliation: Reconciliation, resolutions: tuple[ConflictSide | bytes | None, ...] | bytes
) -> tuple[Change, ConflictResolution] | None:
    """Resolve a conflict: one resolution per choice of the merge, or the whole file.

    Return its change and the resulting side or bytes; None for an invalid resolution.
    """
    change = reconciliation.change
    if change is None or not (isinstance(resolutions, bytes) or resolutions):
        return None
    if reconciliation.merged is not None:
        resolved = (
            resolve_conflict(change, reconciliation, resolutions)
            if isinstance(resolutions, bytes)
            else resolve_regions(change, reconciliation, resolutions)
        )
        if resolved is None or resolved.change is None or resolved.result is None:
            return None
        return resolved.change, resolved.result.content
    resolution = resolutions if isinstance(resolutions, bytes) else resolutions[0]
    can_both = (
        not details.reason
        and None not in (change.yours, change.after)
        and _kind(details.conflict.yours) != _kind(details.conflict.agent)
    )
    if not isinstance(resolution, ConflictSide) or (resolution is ConflictSide.BOTH and not can_both):
        return None
    return replace(change, conflict=None, resolution=Resolution.BOTH), resolution
