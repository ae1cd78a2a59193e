"""Conflicts of commits as changes that can be settled: mine is what the branch holds, the agent's what a commit makes of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_dev.commits.report import SYMLINK, blobs
from agent_dev.diff import merge3 as threeway
from agent_dev.diff.merge3 import Side
from agent_dev.git.bare import Bare
from agent_dev.git.formats.commit_format import Commit
from agent_dev.git.merge_tree_conflict import DIRECTORY, GITLINK, NOTHING, Answer, Blob, Clash
from agent_dev.merge.reconcile import Fit, Sides, resolved, settled
from agent_dev.merge_engine.merge_plan import Result
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind
from agent_dev.sanitize import visible

_FILES = (0o100644, 0o100755)
_SHORT, _FEW = 10, 3
_OF_WHAT = {SYMLINK: "a link", DIRECTORY: "a directory"}


@dataclass(frozen=True, slots=True)
class Met:
    """A clash with the bytes of its sides. `why`: what is told of one that is not of two commits, but of what is in no commit."""

    clash: Clash
    sides: Sides
    why: str = ""


def read(place: Bare, some: tuple[Clash, ...]) -> tuple[Met, ...]:
    """Read the sides of clashes. Raises CommandFailed."""
    wanted = {oid for one in some for mode, oid in (one.base, one.mine, one.agent) if oid and mode not in (DIRECTORY, GITLINK)}
    texts = blobs(place, sorted(wanted))
    return tuple(Met(one, Sides(*(texts.get(oid) for _, oid in (one.base, one.mine, one.agent)))) for one in some)


def opened(met: Met) -> Fit:
    """Return a clash as a change in conflict, with the merge of its lines where it is one of lines."""
    one, sides = met.clash, met.sides
    before, mine, after = (_entry(*both) for both in zip((one.base, one.mine, one.agent), _bytes(sides), strict=True))
    kind = Kind.DELETED if after is None else Kind.ADDED if before is None else Kind.EDITED
    stood = mine if before is after is None else before  # a deletion is of something
    change = Change(
        Key(0, one.path),
        kind,
        stood,
        after,
        conflict=met.why or (_of_own(one) if one.is_own else _why(one)),
        mine=mine,
        is_apart=True,
    )
    is_lines = sides.is_text and all(mode in _FILES for mode, _ in (one.mine, one.agent))
    merged = threeway.merge(sides.base or b"", sides.mine or b"", sides.agent or b"") if is_lines else None
    if merged is None or merged.is_clean:
        return Fit(change)
    return Fit(change, Result(b"", one.mode & 0o777), merged)


def _bytes(sides: Sides) -> tuple[bytes | None, bytes | None, bytes | None]:
    return sides.base, sides.mine, sides.agent


def _entry(blob: Blob, data: bytes | None) -> Entry | None:
    if blob[0] in (DIRECTORY, GITLINK):
        return Entry(FileType.DIRECTORY, 0o755)
    if blob == NOTHING or data is None:
        return None
    if blob[0] == SYMLINK:
        return Entry(FileType.SYMLINK, 0o777, len(data), target=data)
    return Entry(FileType.FILE, blob[0] & 0o777, len(data))


Log = Callable[[str, str], tuple[Commit, ...] | None]  # of a submodule, from one commit to another; None where it is not here


def with_log(met: Met, log: Log) -> Met:
    """Return a clash of a submodule with its commits in words, old → new on either side."""
    one = met.clash
    if GITLINK not in (one.mine[0], one.agent[0]):
        return met
    base = one.base[1] if one.base[0] == GITLINK else ""
    yours, theirs = (_moved(base, side, log) for side in (one.mine, one.agent))
    sides = Sides(*(f"a submodule at {oid}".encode() if oid else None for _, oid in (one.base, one.mine, one.agent)))
    return replace(met, sides=sides, why=f"{met.why or 'a submodule'}: yours {yours}; the agent's {theirs}")


def _moved(base: str, side: Blob, log: Log) -> str:
    if side[0] != GITLINK:
        return f"{base[:_SHORT]} → gone"
    found = log(base, side[1])
    rows = [visible(row.subject) for row in found or ()]
    told = "; ".join((*rows[:_FEW], *(["…"] if len(rows) > _FEW else []))) or "an older commit"
    return f"{base[:_SHORT] or 'nothing'} → {side[1][:_SHORT]} ({'its commits are not here' if found is None else told})"


def _of_own(one: Clash) -> str:
    whose, other = ("yours", "the agent's commit") if one.agent == NOTHING else ("the agent's commit", "yours")
    return f"{whose} and {other} give it two names, and lines in conflict: under this one are the lines of {whose} alone"


def _why(one: Clash) -> str:
    if NOTHING not in (one.mine, one.agent) and _kind(one.mine) != _kind(one.agent):
        kinds = (_OF_WHAT.get(mode, "a file") for mode, _ in (one.mine, one.agent))
        return "it is {} of yours, and {} of the agent's: b keeps both, one of them under another name".format(*kinds)
    if one.agent == NOTHING:
        if one.base == NOTHING:
            return "yours bring it under this name, the agent's commit under another"
        return "the agent's commit removes it, and yours change it"
    if one.mine == NOTHING:
        if one.base == NOTHING:
            return "the agent's commit brings it under this name, yours under another"
        return "yours remove it, and the agent's commit changes it"
    return "your commits and the agent's both change it" if one.base != NOTHING else "your commits and the agent's both add it"


def _kind(blob: Blob) -> int:
    return blob[0] & 0o170000


def answered(met: Met, fit: Fit, answers: tuple[Side | bytes | None, ...] | bytes) -> tuple[Change, Answer] | None:
    """Settle a clash: one answer for each place, or the whole file. Return its change and what lands; None for no meaning."""
    change = fit.change
    if change is None or not (isinstance(answers, bytes) or answers):
        return None
    if fit.merged is not None:
        made = resolved(change, fit, answers) if isinstance(answers, bytes) else settled(change, fit, answers)
        if made is None or made.change is None or made.result is None:
            return None
        return made.change, made.result.content
    how = answers if isinstance(answers, bytes) else answers[0]
    can_both = not met.why and None not in (change.mine, change.after) and _kind(met.clash.mine) != _kind(met.clash.agent)
    if not isinstance(how, Side) or (how is Side.BOTH and not can_both):
        return None
    return replace(change, conflict=None, is_merged=True), how
