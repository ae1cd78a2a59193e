"""Why a commit needs a careful look: the rules over its files as over those of the session, and submodules that it moves."""

from collections.abc import Mapping

from agent_dev.git.formats.commit_format import Told, TreeChange
from agent_dev.overlay.changes import Change, Entry, FileType, Key, Kind, Risk
from agent_dev.risk.content import LOOKED_AT
from agent_dev.risk.risk_rules import RiskRule, judge

GITLINK, _SYMLINK = 0o160000, 0o120000
MOVED = Risk(
    "submodule-moved",
    "The next update of the submodule checks out another commit, and what is built or run of it is that.",
    "the commits between the two, and the branch they are on",
)

Texts = Mapping[str, bytes]  # blobs by id, as far as they are looked at


def of_commit(told: Told, rules: tuple[RiskRule, ...], texts: Texts) -> dict[bytes, tuple[Risk, ...]]:
    """Return the risks of a commit's files by path, where there are any; a file that is not in `texts` counts as too large."""
    found = {one.path: _risks(one, rules, texts) for one in told.files}
    return {path: risks for path, risks in found.items() if risks}


def _risks(one: TreeChange, rules: tuple[RiskRule, ...], texts: Texts) -> tuple[Risk, ...]:
    if GITLINK in (one.old_mode, one.new_mode):
        return (MOVED,)
    before, after = _entry(one.old_mode, texts.get(one.old)), _entry(one.new_mode, texts.get(one.new))
    data = texts.get(one.new, b"") if after is not None and after.type is FileType.FILE else b""
    return judge(Change(Key(0, one.path), Kind(one.kind), before, after), rules, data, lambda: texts.get(one.old, b""))


def _entry(mode: int, data: bytes | None) -> Entry | None:
    if not mode:
        return None
    size = LOOKED_AT + 1 if data is None else len(data)
    if mode == _SYMLINK:
        return Entry(FileType.SYMLINK, 0o777, size, target=data or b"")
    return Entry(FileType.FILE, mode & 0o777, size)


def looked_at(commits: tuple[Told, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the blobs whose contents rules look at, those of one file together: what it is, and what it was."""
    pairs = {
        tuple(oid for mode, oid in ((one.new_mode, one.new), (one.old_mode, one.old)) if mode): None
        for told in commits
        for one in told.files
        if one.new_mode and GITLINK not in (one.new_mode, one.old_mode)
    }
    return tuple(pairs)
