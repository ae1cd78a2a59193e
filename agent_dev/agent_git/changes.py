"""Changes in a session's git directory: refs, commits, stashes, operations in progress."""

from collections.abc import Mapping
from enum import StrEnum

from agent_dev.git.formats.commit_format import ParsedCommit
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.quick_dataclass import dataclass

# Files in a git dir that mark an operation in progress, and the operation's name.
OPERATION_MARKERS = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
HEADS, REMOTES = "refs/heads/", "refs/remotes/"


class RefStatus(StrEnum):
    """The change of a ref."""

    NEW = "new"
    MOVED = "moved"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class RefChange:
    """A ref that changed during the session. Ids in hex, None if it does not exist."""

    name: str
    before: str | None
    after: str | None

    @property
    def status(self) -> RefStatus:
        """The kind of change."""
        if self.before is None:
            return RefStatus.NEW
        return RefStatus.DELETED if self.after is None else RefStatus.MOVED


@dataclass(frozen=True, slots=True)
class Stash:
    """A stash entry of the agent: the id of its commit and its message."""

    id: str
    subject: str


@dataclass(frozen=True, slots=True)
class GitChanges:
    """All changes in a session's git dir. `head_branch`: the agent's current branch, `start_branch`: the first one, or "".

    `is_truncated`: there are more commits. `fetched_count`: number of unlisted commits, which are on remote branches only;
    `remote_ids`: ids of listed commits that are on remote branches, too; `imported_ids`: of those that the user has under another
    id; `declined_ids`: of those that the user does not want.
    """

    commits: tuple[ParsedCommit, ...] = ()
    refs: tuple[RefChange, ...] = ()
    stashes: tuple[Stash, ...] = ()
    operations_in_progress: tuple[str, ...] = ()
    head_branch: str = ""
    start_branch: str = ""
    is_truncated: bool = False
    fetched_count: int = 0
    remote_ids: frozenset[str] = frozenset()
    imported_ids: frozenset[str] = frozenset()
    declined_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tips:
    """Ids of refs: all `new` ones, those on `remote` branches, the agent's `own` (neither remote nor tags), and `old` ones."""

    new: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    old: tuple[str, ...] = ()


def compute_tips(before: Mapping[str, str], after: Mapping[str, str]) -> Tips:
    """Return the ids to which refs, without the stash, point now but did not at the start.

    A tag may have been fetched: its commits count as fetched if a remote branch contains them and no branch of the agent does.
    """
    moved = {name: oid for name, value in after.items() if before.get(name) != value and (oid := _oid(value)) is not None}
    moved.pop("refs/stash", None)
    remote = {oid for name, oid in moved.items() if name.startswith(REMOTES)}
    own = {oid for name, oid in moved.items() if not name.startswith((REMOTES, "refs/tags/"))}
    old = {oid for value in before.values() if (oid := _oid(value)) is not None}
    return Tips(*(tuple(sorted(ids)) for ids in (set(moved.values()), remote, own, old)))


def compare_refs(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[RefChange, ...]:
    """Return the refs that were created, moved or deleted; not HEAD, which only names the agent's branch."""
    names = sorted({*before, *after} - {"HEAD"})
    found = (RefChange(name, _oid(before.get(name)), _oid(after.get(name))) for name in names)
    return tuple(one for one in found if one.before != one.after)


def _oid(value: str | None) -> str | None:
    return parse_ref(value.encode("utf-8", "surrogateescape")) if value is not None else None


def parse_head_branch(head: str) -> str:
    """Return the branch that a HEAD file names, "" for none."""
    name = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
    return name if name.startswith(HEADS) else ""


def parse_stashes(log: bytes) -> tuple[Stash, ...]:
    """Parse the reflog of refs/stash, the newest entry first."""
    found = []
    for line in log.split(b"\n"):
        ids, _, message = line.partition(b"\t")
        fields = ids.split(b" ")
        oid = parse_ref(fields[1]) if len(fields) > 1 else None
        if oid is not None:
            found.append(Stash(oid, message.decode("utf-8", "surrogateescape")))
    return tuple(reversed(found))
