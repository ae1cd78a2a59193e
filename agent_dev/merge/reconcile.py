"""Reconcile an agent's change with the user's: merged, already present, or a conflict with its resolutions."""

from hashlib import sha256

from agent_dev.diff import hunks, merge3
from agent_dev.diff.binary import is_binary
from agent_dev.diff.merge3 import ConflictSide, LineMerge
from agent_dev.fs.entry import Entry, FileType
from agent_dev.merge.decision import Digests, PathDecision, Verdict, decide
from agent_dev.merge_engine.merge_plan import ReconciledContent, RemainderBase
from agent_dev.overlay.changes import Change, ChangeKind, Resolution
from agent_dev.quick_dataclass import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class ThreeVersions:
    """The content of a path in three versions; None for no file or unknown content."""

    base: bytes | None = None
    yours: bytes | None = None
    agent: bytes | None = None

    @property
    def is_text(self) -> bool:
        """Return whether every known side is text whose lines can be compared."""
        known = [side for side in (self.base, self.yours, self.agent) if side is not None]
        return hunks.is_diffable(*known) and not any(map(is_binary, known))

    def digests(self) -> Digests:
        """Return their digests."""
        return Digests(*(None if side is None else sha256(side).digest() for side in (self.base, self.yours, self.agent)))


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The result of reconciling a change. `change` is None if the real tree already has the agent's version.

    `result`: content to apply instead of the agent's file. `merged`: a text merge with conflicts to resolve.
    """

    change: Change | None
    result: ReconciledContent | None = None
    merged: LineMerge | None = field(default=None)


def reconcile_change(change: Change, now: Entry | None, sides: ThreeVersions) -> Reconciliation:
    """Reconcile a change whose real path differs from the base; `now` is the real entry."""
    decision = decide(change.before, now, change.after, sides.digests(), is_text=sides.is_text)
    reconciled = replace(change, conflict=None, resolution=Resolution.BOTH, yours=now)
    match decision.verdict:
        case Verdict.ALREADY_APPLIED:
            return Reconciliation(None)
        case Verdict.USE_AGENT:
            return Reconciliation(
                replace(reconciled, resolution=Resolution.TIMES) if _has_same_metadata(change.before, now) else reconciled,
                _result(change, decision, sides.agent),
            )
        case Verdict.KEEP_YOURS:
            return Reconciliation(reconciled, _result(change, decision, sides.yours))
        case Verdict.MERGE_TEXT:
            return _merge_text(change, reconciled, decision, sides)
        case Verdict.CONFLICT:
            return Reconciliation(replace(change, conflict=decision.why, yours=now))


def _has_same_metadata(before: Entry | None, now: Entry | None) -> bool:
    """Return whether type, mode and attributes are the same; the bytes are known to be equal."""
    if before is None or now is None:
        return before is now
    return (before.type, before.mode, before.attributes) == (now.type, now.mode, now.attributes)


def _result(change: Change, decision: PathDecision, content: bytes | None) -> ReconciledContent | None:
    """Return the content to apply; None for the agent's own entry."""
    after = change.after
    if after is None or after.type not in (FileType.FILE, FileType.DIRECTORY):
        return None
    is_agents = decision.verdict is Verdict.USE_AGENT and (after.mode, after.attributes) == (
        decision.mode,
        decision.attributes,
    )
    if is_agents or (content is None and after.type is FileType.FILE):
        return None
    return ReconciledContent(content or b"", decision.mode, decision.attributes)


def _merge_text(change: Change, reconciled: Change, decision: PathDecision, sides: ThreeVersions) -> Reconciliation:
    merged = merge3.merge_lines(sides.base or b"", sides.yours or b"", sides.agent or b"")
    if merged.is_clean:
        return Reconciliation(reconciled, ReconciledContent(merged.resolve(), decision.mode, decision.attributes), merged)
    count = len(merged.conflicts)
    why = "you and the agent changed the same lines" + (f" in {count} places" if count > 1 else "")
    unresolved = replace(change, conflict=why, yours=reconciled.yours)
    return Reconciliation(unresolved, ReconciledContent(b"", decision.mode, decision.attributes), merged)


def resolve_regions(change: Change, one: Reconciliation, answers: merge3.Resolutions) -> Reconciliation | None:
    """Resolve a conflict with one answer per choice of the merge, or one for a file without lines; None if that is not possible.

    The agent's edits that are left out stay in the session: see `ReconciledContent.part`.
    """
    if one.merged is None or one.result is None:
        return resolve_conflict(change, one, answers[0]) if answers and isinstance(answers[0], ConflictSide) else None
    part = None
    if one.merged.left_out(answers) and change.after is not None:
        part = RemainderBase(one.merged.without_left_out(answers), change.after.mode)
    is_agents = all(
        answer is ConflictSide.AGENT
        for region, answer in zip(one.merged.choices, answers, strict=False)
        if isinstance(region, merge3.LineConflict)
    )
    resolution = Resolution.AGENT if is_agents else Resolution.BOTH
    return _resolved_text(change, one.merged, replace(one.result, content=one.merged.resolve(answers), part=part), resolution)


def resolve_conflict(change: Change, one: Reconciliation, answer: ConflictSide | bytes) -> Reconciliation | None:
    """Resolve a whole conflict with one answer; return None if it is not possible, such as both sides of a binary file.

    A side answers every conflict of a text, and the agent's other edits are applied; bytes are the whole file, from an editor. A
    result equal to the real file, such as YOURS for a binary file, leaves the real tree unchanged and removes the change from the
    session.
    """
    if one.merged is not None and one.result is not None:
        content = answer if isinstance(answer, bytes) else one.merged.resolve(one.merged.default_resolutions(answer))
        resolution = Resolution.AGENT if answer is ConflictSide.AGENT else Resolution.BOTH
        return _resolved_text(change, one.merged, replace(one.result, content=content), resolution)
    if answer is ConflictSide.AGENT:
        is_bare = change.kind is ChangeKind.METADATA and change.yours is None  # the entry with the agent's mode no longer exists
        kind = ChangeKind.ADDED if is_bare else change.kind
        return Reconciliation(replace(change, kind=kind, conflict=None, resolution=Resolution.AGENT))
    is_yours = answer is ConflictSide.YOURS
    return Reconciliation(replace(change, conflict=None, resolution=Resolution.YOURS)) if is_yours else None


def _resolved_text(
    change: Change, merged: LineMerge, result: ReconciledContent, resolution: Resolution = Resolution.BOTH
) -> Reconciliation:
    """Return the resolution of a text; if it equals the real file, nothing is applied."""
    if not change.is_from_commit and _equals_yours(change.yours, merged, result):
        return Reconciliation(replace(change, conflict=None, resolution=Resolution.YOURS))
    return Reconciliation(replace(change, conflict=None, resolution=resolution), result, merged)


def _equals_yours(yours: Entry | None, merged: LineMerge, result: ReconciledContent) -> bool:
    """Return whether a resolved text equals the user's file, without any edit or mode of the agent's."""
    if yours is None or (yours.mode, yours.attributes) != (result.mode, result.attributes):
        return False
    if len(merged.choices) > len(merged.conflicts):
        return False
    return result.content == merged.resolve(merged.default_resolutions(ConflictSide.YOURS))
