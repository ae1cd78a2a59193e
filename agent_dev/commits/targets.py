"""Selection of a session's commits and of the refs that they may update, as pure functions over values."""

import shlex
from collections.abc import Mapping, Sequence

from agent_dev.agent_git.changes import HEADS
from agent_dev.diff import contains_edit, merge3
from agent_dev.diff.binary import is_binary
from agent_dev.errors import UsageError
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.git.merge_tree_conflict import ConflictResolutions
from agent_dev.quick_dataclass import dataclass, field

_MIN_PREFIX = 4


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of an import. `commit_args`: the values of --commits ("": the branch that the session started on).

    `args_by_root`: other values for each root; of roots without one, nothing is imported. `resolutions`: resolutions of known
    conflicts. `include_risky`: import commits with risky files, too.
    """

    commit_args: tuple[str, ...]
    branch_name: str = ""  # of a new branch
    squash: bool = False
    onto_current: bool = False
    message: str = ""
    is_dry_run: bool = False
    include_risky: bool = False
    resolutions: ConflictResolutions = field(default_factory=dict)
    args_by_root: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentBranch:
    """A ref of the agent. `before`: its id when the session started ("": it is new)."""

    name: str
    tip: str
    before: str


@dataclass(frozen=True, slots=True)
class PickedCommits:
    """Commits to cherry-pick: ids, or (start, end) of a range."""

    items: tuple[str | tuple[str, str], ...]


def parse_commit_args(
    values: Sequence[str], before: Mapping[str, str], after: Mapping[str, str], commits: Sequence[str]
) -> AgentBranch | PickedCommits:
    """Resolve the values of --commits. Raises UsageError for one that the session does not have."""
    if len(values) > 1 or ".." in values[0]:
        return PickedCommits(tuple(_parse_item(value, after, commits) for value in values))
    name = find_start_branch(before) if not values[0] else _find_ref(values[0], after)
    if name and (tip := _oid(after.get(name, ""))):
        return AgentBranch(name, tip, _oid(before.get(name, "")))
    if not values[0]:
        raise _no_start_branch(name, after)
    return PickedCommits((_find_commit(values[0], after, commits),))


def find_start_branch(before: Mapping[str, str]) -> str:
    """Return the branch that a session started on; HEAD itself if it was detached."""
    head = before.get("HEAD", "")
    return head.removeprefix("ref:").strip() if head.startswith("ref:") else "HEAD"


def _no_start_branch(name: str, after: Mapping[str, str]) -> UsageError:
    """Return the error for a first branch that is missing; the hint names the branch that the agent has checked out."""
    is_detached, branch = name == "HEAD", find_start_branch(after)
    message = "the session started with a detached HEAD" if is_detached else "the agent deleted the session's first branch"
    if not (is_detached and branch in after):
        return UsageError(message=message, hint="list the commits: agent-dev commits")
    branch = shlex.quote(branch.removeprefix(HEADS))
    return UsageError(message=message, hint=f"agent-dev merge --commits {branch} --as NAME")


def _find_ref(name: str, refs: Mapping[str, str]) -> str:
    candidates = (name, f"{HEADS}{name}", f"refs/tags/{name}", f"refs/{name}")
    return next((ref for ref in candidates if ref in refs and (ref == "HEAD" or ref.startswith("refs/"))), "")


def _oid(value: str) -> str:
    return parse_ref(value.encode("utf-8", "surrogateescape")) or ""


def _parse_item(value: str, refs: Mapping[str, str], commits: Sequence[str]) -> str | tuple[str, str]:
    first, dots, last = value.partition("..")
    if not dots:
        return _find_commit(value, refs, commits)
    return _find_commit(first, refs, commits, is_start=True), _find_commit(last or "HEAD", refs, commits)


def _find_commit(name: str, refs: Mapping[str, str], commits: Sequence[str], *, is_start: bool = False) -> str:
    ref = _find_ref(name, refs)
    value = refs.get(ref, "")
    if ref == "HEAD" and value.startswith("ref:"):
        value = refs.get(value.removeprefix("ref:").strip(), "")
    if found := _oid(value):
        return found
    if is_start and (full_id := _oid(name)):
        return full_id
    matching = [oid for oid in commits if len(name) >= _MIN_PREFIX and oid.startswith(name)]
    if len(matching) != 1:
        problem = "matches several commits" if matching else "is neither a branch nor a commit"
        raise UsageError(message=f"`{name}` {problem} of this session", hint="list them: agent-dev commits")
    return matching[0]


def kept_ref_name(session: str, ref: str) -> str:
    """Return the ref that keeps a session's ref in the user's repository."""
    return f"refs/agent-dev/{session}/{ref.removeprefix('refs/')}"


def merge_texts(before: bytes, yours: bytes, agent: bytes) -> bytes | None:
    """Return the merge of the user's uncommitted version of a file with that of commits; None if they conflict.

    Commits that contain the user's edit already, because the agent committed it, supply the whole result.
    """
    if any(map(is_binary, (before, yours, agent))):
        return agent if yours in (before, agent) else None
    if contains_edit.contains(before, yours, agent):
        return agent
    merged = merge3.merge_lines(before, yours, agent)
    return merged.resolve() if merged.is_clean else None
