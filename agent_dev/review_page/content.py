"""The content of a review page, as plain values. Text of the agent is not escaped yet."""

from collections.abc import Iterable

from agent_dev.git.formats.commit_format import CommitIdentity
from agent_dev.overlay.changes import Risk
from agent_dev.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row of a diff side by side: the old and the new line with their numbers, from 1; None for no line."""

    old_number: int
    old: bytes | None
    new_number: int
    new: bytes | None
    is_changed: bool = True


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """A hunk: its `@@` line and its rows."""

    header: str
    rows: tuple[PageRow, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """A diff of one file. `omitted`: the number of further rows, `reason`: why there are no hunks, or ""."""

    hunks: tuple[DiffHunk, ...] = ()
    omitted: int = 0
    reason: str = ""


NumberedLine = tuple[int, bytes | None]  # from 1; None for no line


@dataclass(frozen=True, slots=True)
class ThreeWayRow:
    """A row of a three-way view: the lines of the base version, of yours and of the agent's."""

    base: NumberedLine
    yours: NumberedLine
    agent: NumberedLine
    is_changed: bool = True


@dataclass(frozen=True, slots=True)
class ThreeWayHunk:
    """A conflict, or lines that one side changed, with lines of context."""

    heading: str
    is_conflict: bool
    rows: tuple[ThreeWayRow, ...]


@dataclass(frozen=True, slots=True)
class ThreeWayView:
    """All changes of both sides to one file. `omitted`: the number of further rows."""

    hunks: tuple[ThreeWayHunk, ...] = ()
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class ChangeSection:
    """One change. `number`: from 1 on the page; `old_path`: of a renamed file; `block`: a conflict, or why it cannot be merged.

    `labels`: short facts for the heading; `facts`: pairs of a name and a value. Counts are None for binary files. A conflict in
    the lines of a file has a three-way view in place of the diff.
    """

    number: int
    kind: str
    path: str
    old_path: str = ""
    insertions: int | None = None
    deletions: int | None = None
    labels: tuple[str, ...] = ()
    risks: tuple[Risk, ...] = ()
    block: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    diff: Diff = Diff()
    three_way: ThreeWayView = ThreeWayView()


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A file that a commit changed."""

    path: bytes
    old_path: bytes = b""
    labels: tuple[str, ...] = ()
    risks: tuple[Risk, ...] = ()
    diff: Diff = Diff()


@dataclass(frozen=True, slots=True)
class CommitSection:
    """One commit. `notes`: further facts; `files`: its patch; `reason`: why there is no patch, or ""."""

    id: str
    subject: str
    message: bytes
    author: CommitIdentity
    committer: CommitIdentity
    parents: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[CommitFile, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RiskGroup:
    """A risk and the changes that have it: pairs of a number on the page (0: not on it) and a path; `omitted`: further ones."""

    risk: Risk
    paths: tuple[tuple[int, str], ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class CommitList:
    """The commits of a session, the newest first; `notes`: other changes of its git directory; `total`: with those not shown."""

    sections: tuple[CommitSection, ...] = ()
    notes: tuple[str, ...] = ()
    total: int = 0


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """The whole page. `facts`: pairs of a name and a value; `totals`: short phrases; `total`: changes with those not shown.

    `changes` may be a generator: diffs are read while the page is written.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    totals: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    risks: tuple[RiskGroup, ...]
    changes: Iterable[ChangeSection]
    total: int
    shown: int
    commits: CommitList = CommitList()
