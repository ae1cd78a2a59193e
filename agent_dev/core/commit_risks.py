"""Why a commit needs a careful look: the rules over its paths and modes, and submodules that it moves."""

from agent_dev.core.changes import Change, Entry, FileType, Key, Kind, Risk
from agent_dev.core.commits import Told, TreeChange
from agent_dev.core.risk import RiskRule, judge

GITLINK, _SYMLINK = 0o160000, 0o120000
MOVED = Risk(
    "submodule-moved",
    "The next update of the submodule checks out another commit, and what is built or run of it is that.",
    "the commits between the two, and the branch they are on",
)


def of_commit(told: Told, rules: tuple[RiskRule, ...]) -> dict[bytes, tuple[Risk, ...]]:
    """Return the risks of a commit's files by path, where there are any. Contents are not looked at."""
    found = {one.path: _risks(one, rules) for one in told.files}
    return {path: risks for path, risks in found.items() if risks}


def _risks(one: TreeChange, rules: tuple[RiskRule, ...]) -> tuple[Risk, ...]:
    if GITLINK in (one.old_mode, one.new_mode):
        return (MOVED,)
    return judge(Change(Key(0, one.path), Kind(one.kind), _entry(one.old_mode), _entry(one.new_mode)), rules)


def _entry(mode: int) -> Entry | None:
    if not mode:
        return None
    return Entry(FileType.SYMLINK if mode == _SYMLINK else FileType.FILE, mode & 0o777)
