"""Which of a session's commits are meant, and where they may go: decided over values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_dev.agent_git.changes import HEADS
from agent_dev.diff import contains_edit as edits
from agent_dev.diff import merge3 as threeway
from agent_dev.diff.hunks import LARGEST, is_binary
from agent_dev.errors import UsageError
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.git.merge_tree_conflict import Answers

_SHORTEST = 4


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. `words`: what stands behind each --commits ("": the branch the session began on).

    `answers`: how conflicts of the commits are settled that were met before.
    """

    words: tuple[str, ...]
    name: str = ""  # of a new branch
    squash: bool = False
    onto_current: bool = False
    message: str = ""
    is_dry: bool = False
    answers: Answers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Branch:
    """A ref of the agent's, whole. `before`: what it led to when the session began ("": it is new)."""

    name: str
    tip: str
    before: str


@dataclass(frozen=True, slots=True)
class Picks:
    """Some commits, to be taken one by one: ids, or (start, end) of a range."""

    items: tuple[str | tuple[str, str], ...]


def chosen(words: Sequence[str], before: Mapping[str, str], after: Mapping[str, str], commits: Sequence[str]) -> Branch | Picks:
    """Return what words mean. Raises UsageError for what the session does not have."""
    if len(words) > 1 or ".." in words[0]:
        return Picks(tuple(_item(word, after, commits) for word in words))
    name = _start(before) if not words[0] else _ref(words[0], after)
    if name and (tip := _oid(after.get(name, ""))):
        return Branch(name, tip, _oid(before.get(name, "")))
    if not words[0]:
        raise UsageError(
            message="the agent removed the branch that the session began on", hint="agent-dev commits tells the rest"
        )
    return Picks((_commit(words[0], after, commits),))


def _start(before: Mapping[str, str]) -> str:
    """Return the branch that a session began on; HEAD itself when it began on none."""
    head = before.get("HEAD", "")
    return head.removeprefix("ref:").strip() if head.startswith("ref:") else "HEAD"


def _ref(word: str, refs: Mapping[str, str]) -> str:
    names = (word, f"{HEADS}{word}", f"refs/tags/{word}", f"refs/{word}")
    return next((name for name in names if name in refs and (name == "HEAD" or name.startswith("refs/"))), "")


def _oid(value: str) -> str:
    return parse_ref(value.encode("utf-8", "surrogateescape")) or ""


def _item(word: str, refs: Mapping[str, str], commits: Sequence[str]) -> str | tuple[str, str]:
    first, dots, last = word.partition("..")
    if not dots:
        return _commit(word, refs, commits)
    return _commit(first, refs, commits, is_start=True), _commit(last or "HEAD", refs, commits)


def _commit(word: str, refs: Mapping[str, str], commits: Sequence[str], *, is_start: bool = False) -> str:
    name = _ref(word, refs)
    value = refs.get(name, "")
    if name == "HEAD" and value.startswith("ref:"):
        value = refs.get(value.removeprefix("ref:").strip(), "")
    if found := _oid(value):
        return found
    if is_start and (whole := _oid(word)):
        return whole
    matching = [oid for oid in commits if len(word) >= _SHORTEST and oid.startswith(word)]
    if len(matching) != 1:
        what = "means several commits" if matching else "is no branch and no commit"
        raise UsageError(message=f"`{word}` {what} of this session", hint="agent-dev commits lists them")
    return matching[0]


def kept_name(session: str, ref: str) -> str:
    """Return where a ref of a session is kept in the user's repository."""
    return f"refs/agent-dev/{session}/{ref.removeprefix('refs/')}"


def combined(before: bytes, mine: bytes, theirs: bytes) -> bytes | None:
    """Return what becomes of a file that the user had edited and commits change too; None when they are in each other's way.

    Commits that hold the user's edit already, as those do that an agent made of a tree with uncommitted edits, bring all
    of it.
    """
    if any(is_binary(side) or len(side) > LARGEST for side in (before, mine, theirs)):
        return theirs if mine in (before, theirs) else None
    if edits.holds(before, mine, theirs):
        return theirs
    merged = threeway.merge(before, mine, theirs)
    return merged.resolve() if merged.is_clean else None
