"""What a session's git dir holds after its end: refs that moved, commits, stashes, what was begun and not finished."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agent_dev.git.formats.commit_format import Told
from agent_dev.git.formats.ref_format import parse_ref

# What git leaves in a git dir while it is in the middle of something, and what that is called.
UNFINISHED = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
HEADS, REMOTES = "refs/heads/", "refs/remotes/"


class Motion(StrEnum):
    """What became of a ref."""

    NEW = "new"
    MOVED = "moved"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class RefChange:
    """A ref that is not what it was when the session began. Ids in hex, None for nothing."""

    name: str
    before: str | None
    after: str | None

    @property
    def motion(self) -> Motion:
        """What became of it."""
        if self.before is None:
            return Motion.NEW
        return Motion.DELETED if self.after is None else Motion.MOVED


@dataclass(frozen=True, slots=True)
class Stash:
    """An entry that the agent put on the stash: the id of its commit and what it says."""

    id: str
    subject: str


@dataclass(frozen=True, slots=True)
class Found:
    """All of it. `head` is the branch that the agent stood on ("" when on none), `start` the one the session began on.

    `is_cut`: there are more commits than are told. `fetched`: how many are on remote branches only, and not told; `remote`: ids
    of commits that are there, too.
    """

    commits: tuple[Told, ...] = ()
    refs: tuple[RefChange, ...] = ()
    stashes: tuple[Stash, ...] = ()
    unfinished: tuple[str, ...] = ()
    head: str = ""
    start: str = ""
    is_cut: bool = False
    fetched: int = 0
    remote: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tips:
    """Ids that refs lead to: `new`, of those on `remote` branches, `own` (on neither these nor tags), and the `old` ones."""

    new: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    old: tuple[str, ...] = ()


def tips(before: Mapping[str, str], after: Mapping[str, str]) -> Tips:
    """Return what refs lead to that they did not before; a stash is told apart.

    A tag may have come by a fetch as well: what it leads to is fetched when a remote branch has it and none of the agent's.
    """
    moved = {name: oid for name, value in after.items() if before.get(name) != value and (oid := _oid(value)) is not None}
    moved.pop("refs/stash", None)
    remote = {oid for name, oid in moved.items() if name.startswith(REMOTES)}
    own = {oid for name, oid in moved.items() if not name.startswith((REMOTES, "refs/tags/"))}
    old = {oid for value in before.values() if (oid := _oid(value)) is not None}
    return Tips(*(tuple(sorted(ids)) for ids in (set(moved.values()), remote, own, old)))


def ref_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[RefChange, ...]:
    """Return the refs that were made, moved or removed; HEAD alone is only where the agent stood."""
    names = sorted({*before, *after} - {"HEAD"})
    found = (RefChange(name, _oid(before.get(name)), _oid(after.get(name))) for name in names)
    return tuple(one for one in found if one.before != one.after)


def _oid(value: str | None) -> str | None:
    return parse_ref(value.encode("utf-8", "surrogateescape")) if value is not None else None


def branch_of(head: str) -> str:
    """Return the branch that a HEAD file names, "" for none."""
    name = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
    return name if name.startswith(HEADS) else ""


def parse_stashes(log: bytes) -> tuple[Stash, ...]:
    """Parse the reflog of refs/stash, the newest entry first."""
    found = []
    for line in log.split(b"\n"):
        head, _, message = line.partition(b"\t")
        words = head.split(b" ")
        oid = parse_ref(words[1]) if len(words) > 1 else None
        if oid is not None:
            found.append(Stash(oid, message.decode("utf-8", "surrogateescape")))
    return tuple(reversed(found))
