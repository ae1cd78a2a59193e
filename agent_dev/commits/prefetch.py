"""Early start of git queries about a session's commits, so that they run while the session opens. Few imports."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from agent_dev.agent_git import commits, current_refs, refs
from agent_dev.agent_git.changes import GitChanges
from agent_dev.agent_git.repositories import AgentRepository, list_repositories
from agent_dev.errors import CommandFailed
from agent_dev.git.bare import BareRepository
from agent_dev.git.formats.commit_format import TreeChange, parse_diff
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.quick_dataclass import dataclass
from agent_dev.session import store

_FinishDiff = Callable[[], tuple[TreeChange, ...]]


@dataclass(frozen=True, slots=True)
class RunningQueries:
    """A repository with the objects of an agent's git dir, `source`, and the git queries that run in it.

    `finish_diff` waits for the changes between its first commit, `start_commit`, and its last one. `rename_similarity`: percent
    of a renamed file's content that is the same.
    """

    source: AgentRepository
    repo: BareRepository
    start_commit: str
    head_commit: str
    finish_diff: _FinishDiff
    finish_read: Callable[[], GitChanges]
    rename_similarity: int


@contextmanager
def start_queries(session: store.Session, record: store.Record, environ: dict[str, str]) -> Iterator[tuple[RunningQueries, ...]]:
    """Start queries of each repository of a session, in the order of its roots. Raises CommandFailed."""
    sources = list_repositories(session, record)
    if sources and (session.lock >= 0 or not store.is_locked(session)):  # while the agent runs, its root's mode is not changed
        store.make_uppers_accessible(session, len(record["roots"]))
    with ExitStack() as stack:
        yield tuple(stack.enter_context(_start(source, environ)) for source in sources)


@contextmanager
def _start(source: AgentRepository, environ: dict[str, str]) -> Iterator[RunningQueries]:
    start, head = resolve_head(refs.read_initial_refs(source)), resolve_head(current_refs.read_refs(source, environ))
    similarity = source.record.get("rename_similarity", store.DEFAULT_SIMILARITY)
    with (
        commits.open_agent_objects(source, environ) as repo,
        _start_diff(repo, start, head) as finish_diff,
        commits.start_read(source, repo, environ) as finish_read,
    ):
        yield RunningQueries(source, repo, start, head, finish_diff, finish_read, similarity)


def resolve_head(values: Mapping[str, str]) -> str:
    """Return the commit that HEAD points to, "" for none."""
    head = values.get("HEAD", "")
    value = values.get(head.removeprefix("ref:").strip(), "") if head.startswith("ref:") else head
    return parse_ref(value.encode("utf-8", "surrogateescape")) or ""


def diff_commits(repo: BareRepository, start: str, end: str) -> tuple[TreeChange, ...]:
    """Return the changes from one commit ("": the empty tree) to another."""
    with _start_diff(repo, start, end) as finish:
        return finish()


@contextmanager
def _start_diff(repo: BareRepository, start: str, end: str) -> Iterator[_FinishDiff]:
    """Start `git diff-tree`; yield a function that waits for the changes."""
    if start == end or not end:
        yield tuple
        return
    args = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    with repo.start(*args, *((start, end) if start else ("--root", end))) as finish:

        def changes() -> tuple[TreeChange, ...]:
            code, output, reason = finish()
            if code:
                raise CommandFailed(program="git diff-tree", reason=reason)
            return parse_diff(output).get("" if start else end, ())

        yield changes
