"""What git is asked of a session's commits at once, to be at work while the session is opened. It loads little else."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from agent_dev.agent_git.changes import Found
from agent_dev.commits.agent_git import commits, refs
from agent_dev.errors import CommandFailed
from agent_dev.git.bare import Bare
from agent_dev.git.formats.commit_format import TreeChange, parse_diff
from agent_dev.git.formats.ref_format import parse_ref
from agent_dev.session import store

_Waiting = Callable[[], tuple[TreeChange, ...]]


@dataclass(frozen=True, slots=True)
class Begun:
    """A skeleton of an agent's git dir, and what waits for what gits say of it that are at work.

    `moved`: what differs between its first commit, `start`, and its last.
    """

    skeleton: Bare
    start: str
    head: str
    moved: _Waiting
    end: Callable[[], Found]


@contextmanager
def begun(session: store.Session, record: store.Record, environ: dict[str, str]) -> Iterator[Begun | None]:
    """Have git at work on an agent's git dir, None without one: a session can be opened meanwhile. Raises CommandFailed."""
    if refs.private_dir(session, record) is None:
        yield None
        return
    store.reopen(session, len(record["roots"]))
    start, head = head_of(refs.remembered(session)), head_of(refs.now(session, record, environ))
    with (
        commits.opened(session, record, environ) as skeleton,
        _compared(skeleton, start, head) as moved,
        commits.begun(session, record, skeleton, environ) as end,
    ):
        yield Begun(skeleton, start, head, moved, end)


def head_of(values: Mapping[str, str]) -> str:
    """Return the commit that HEAD leads to, "" for none."""
    head = values.get("HEAD", "")
    value = values.get(head.removeprefix("ref:").strip(), "") if head.startswith("ref:") else head
    return parse_ref(value.encode("utf-8", "surrogateescape")) or ""


def between(place: Bare, start: str, end: str) -> tuple[TreeChange, ...]:
    """Return what differs from one commit ("": nothing at all) to another."""
    with _compared(place, start, end) as moved:
        return moved()


@contextmanager
def _compared(place: Bare, start: str, end: str) -> Iterator[_Waiting]:
    """Have git at work on that, and what waits for it. Nothing leads to no commit."""
    if start == end or not end:
        yield tuple
        return
    words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    with place.started(*words, *((start, end) if start else ("--root", end))) as answer:

        def moved() -> tuple[TreeChange, ...]:
            code, said, why = answer()
            if code:
                raise CommandFailed(program="git diff-tree", reason=why)
            return parse_diff(said).get("" if start else end, ())

        yield moved
