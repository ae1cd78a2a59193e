"""How an agent's change fits a path that the user changed meanwhile: merged, already there, or a conflict and its ways out."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from agent_dev.diff import hunks as blocks
from agent_dev.diff import merge3 as threeway
from agent_dev.diff.merge3 import Merged, Region, Side, Source
from agent_dev.merge.decision import Decision, Digests, Verdict, decide
from agent_dev.merge_engine.merge_plan import Result
from agent_dev.overlay.changes import Change, Entry, FileType


@dataclass(frozen=True, slots=True)
class Sides:
    """The bytes of a path on three sides; None where there is no file, or its bytes are not known."""

    base: bytes | None = None
    mine: bytes | None = None
    agent: bytes | None = None

    @property
    def is_text(self) -> bool:
        """Whether lines can be compared on every side."""
        known = [side for side in (self.base, self.mine, self.agent) if side is not None]
        return not any(blocks.is_binary(side) or len(side) > blocks.LARGEST for side in known)

    def digests(self) -> Digests:
        """Return what tells them apart."""
        return Digests(*(None if side is None else sha256(side).digest() for side in (self.base, self.mine, self.agent)))


@dataclass(frozen=True, slots=True)
class Fit:
    """What became of a change. `change` is None where the real tree already holds what the agent left.

    `result`: what lands instead of the agent's own file. `merged`: the text merge that is in conflict, to be resolved.
    """

    change: Change | None
    result: Result | None = None
    merged: Merged | None = field(default=None)


def fit(change: Change, now: Entry | None, sides: Sides) -> Fit:
    """Decide about a change whose path is not as the base was; `now` is what stands there."""
    decision = decide(change.before, now, change.after, sides.digests(), is_text=sides.is_text)
    together = replace(change, conflict=None, is_merged=True, mine=now)
    match decision.verdict:
        case Verdict.ALREADY:
            return Fit(None)
        case Verdict.CLEAN_AGENT:
            return Fit(replace(together, is_touched=_is_like(change.before, now)), _result(change, decision, sides.agent))
        case Verdict.KEEP_MINE:
            return Fit(together, _result(change, decision, sides.mine))
        case Verdict.MERGE_TEXT:
            return _text(change, together, decision, sides)
        case Verdict.CONFLICT:
            return Fit(replace(change, conflict=decision.why, mine=now))


def _is_like(before: Entry | None, now: Entry | None) -> bool:
    """Whether what stands there differs from the base's in nothing that is the user's; its bytes are known to be the same."""
    if before is None or now is None:
        return before is now
    return (before.type, before.mode, before.attributes) == (now.type, now.mode, now.attributes)


def _result(change: Change, decision: Decision, content: bytes | None) -> Result | None:
    """Return what lands, None where that is the agent's own entry as it is."""
    after = change.after
    if after is None or after.type not in (FileType.FILE, FileType.DIRECTORY):
        return None
    is_agents = decision.verdict is Verdict.CLEAN_AGENT and (after.mode, after.attributes) == (decision.mode, decision.attributes)
    if is_agents or (content is None and after.type is FileType.FILE):
        return None
    return Result(content or b"", decision.mode, decision.attributes)


def _text(change: Change, together: Change, decision: Decision, sides: Sides) -> Fit:
    merged = threeway.merge(sides.base or b"", sides.mine or b"", sides.agent or b"")
    if merged.is_clean:
        return Fit(together, Result(merged.resolve(), decision.mode, decision.attributes), merged)
    count = len(merged.conflicts)
    why = "you and the agent changed the same lines" + (f", in {count} places" if count > 1 else "")
    unsettled = replace(change, conflict=why, mine=together.mine)
    return Fit(unsettled, Result(b"", decision.mode, decision.attributes), merged)


def settled(change: Change, one: Fit, answers: Sequence[Side | bytes | None]) -> Fit | None:
    """Return a conflict settled with an answer for each place; of what has no lines with one. None where that means nothing."""
    if one.merged is None or one.result is None:
        return resolved(change, one, answers[0]) if answers and isinstance(answers[0], Side) else None
    return _landing(change, one.merged, replace(one.result, content=one.merged.resolve(answers)))


def resolved(change: Change, one: Fit, how: Side | bytes) -> Fit | None:
    """Return a conflict resolved one way; None where that way means nothing: both of what is no text.

    A side answers every conflict of a text; bytes are the whole file, from an editor. What comes to what stands there, as
    MINE of what is no text does, leaves the real tree as it is and takes the change out of the session.
    """
    change = replace(change, is_instead=how is Side.AGENT)
    together = replace(change, conflict=None, is_merged=True)
    if one.merged is not None and one.result is not None:
        content = how if isinstance(how, bytes) else one.merged.resolve([how] * len(one.merged.conflicts))
        return _landing(change, one.merged, replace(one.result, content=content))
    if how is Side.AGENT:
        return Fit(together)
    return Fit(replace(together, is_dropped=True)) if how is Side.MINE else None


def _landing(change: Change, merged: Merged, result: Result) -> Fit:
    """Return a text that is settled; nothing lands where that is what stands there."""
    together = replace(change, conflict=None, is_merged=True)
    if not change.is_apart and _is_mine(change.mine, merged, result):
        return Fit(replace(together, is_dropped=True))
    return Fit(together, result, merged)


def _is_mine(mine: Entry | None, merged: Merged, result: Result) -> bool:
    """Whether a text that is settled is what stands there: no edit of the agent's own is in it, and no mode of the agent's."""
    if mine is None or (mine.mode, mine.attributes) != (result.mode, result.attributes):
        return False
    if any(isinstance(one, Region) and one.source is Source.AGENT for one in merged.regions):
        return False
    return result.content == merged.resolve([Side.MINE] * len(merged.conflicts))
