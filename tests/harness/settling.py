"""Commits that are to come home and are in something's way, as the screen meets and settles that."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agent_dev.cli.screen.commits_source import bringer
from agent_dev.cli.screen.conflicts_source import Settling, attempt
from agent_dev.diff.merge3 import Side
from agent_dev.merge.review import Review
from agent_dev.overlay.changes import Key
from agent_dev.overlay.selection import Selection
from tests.harness.git_session import GitSession
from tests.harness.repository import ENVIRON, commit, git, repository
from tui.model.tabs import Way
from tui.source import Answers, Ended

YOURS, THEIRS, BOTH = ((side,) for side in (Side.MINE, Side.AGENT, Side.BOTH))


def users(place: Path, **files: str) -> Path:
    """Make a repository in which Grace has committed some files."""
    root = repository(place)
    for name, value in (("user.name", "Grace"), ("user.email", "grace@example.invalid")):
        git(root, "config", name, value)
    for name, text in files.items():
        (root / name).write_text(text)
    commit(root, "lines")
    return root


@contextmanager
def reviews(session: GitSession) -> Iterator[Callable[[], Review]]:
    """Yield what opens a session as often as wanted; in the end all is closed."""
    opened: list[Review] = []

    def opens() -> Review:
        opened.append(session.review())
        return opened[-1]

    yield opens
    for one in opened:
        one.close()


def begin(session: GitSession, review: Review, way: Way = Way.YOURS) -> tuple[Ended, Settling | None]:
    """Bring all that was committed home, and return what stops it."""
    known = [one.id for one in session.look().found.commits]
    again = bringer(review, session.store, known, (way, ""), with_trailers=False)
    ended, done = attempt(again, {})
    if done is None or not done.met:
        return ended, None
    return ended, Settling(done, again, ("s", str(session.root)), ENVIRON, session.session.folder)


def settle(source: Settling, answers: Mapping[bytes, Answers]) -> Ended:
    """Settle some paths, and bring the commits home."""
    for path, answer in answers.items():
        made = source.settle(Key(0, path), answer)
        assert made is not None
        assert made.is_clean
    return source.merge(Selection(frozenset(Key(0, path) for path in answers)), lambda _done, _whole: None)


def meet(session: GitSession, review: Callable[[], Review], way: Way = Way.YOURS) -> Settling:
    """End a session whose commits are in the way of the user's, and return the conflicts."""
    session.end()
    ended, source = begin(session, review(), way)
    assert (ended.is_done, source is not None) == (False, True)
    assert source is not None
    assert ended.conflicts == len(source.changes.changes)
    return source
