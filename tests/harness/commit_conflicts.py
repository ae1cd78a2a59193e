"""Import commits that conflict with the user's, and resolve the conflicts as the screen does."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agent_dev.cli.screen.commits_reader import make_importer
from agent_dev.cli.screen.conflict_source import ConflictSource, try_import
from agent_dev.diff.merge3 import ConflictSide
from agent_dev.fs.entry import Key
from agent_dev.merge.review import Review
from agent_dev.overlay.selection import Selection
from tests.harness.git.git_session import GitSession
from tests.harness.repository import ENVIRON, commit, git, repository
from tui.model.tabs import ImportMode
from tui.source import ConflictResolution, OperationResult

YOURS, THEIRS, BOTH = ((side,) for side in (ConflictSide.YOURS, ConflictSide.AGENT, ConflictSide.BOTH))


def make_users_repository(place: Path, **files: str) -> Path:
    """Create a repository in which Grace has committed some files."""
    root = repository(place)
    for name, value in (("user.name", "Grace"), ("user.email", "grace@example.invalid")):
        git(root, "config", name, value)
    for name, text in files.items():
        (root / name).write_text(text)
    commit(root, "lines")
    return root


@contextmanager
def review_opener(session: GitSession) -> Iterator[Callable[[], Review]]:
    """Yield a function that opens a review of the session; all reviews are closed at the end."""
    opened: list[Review] = []

    def open_review() -> Review:
        opened.append(session.review())
        return opened[-1]

    yield open_review
    for one in opened:
        one.close()


def start_import(
    session: GitSession, review: Review, way: ImportMode = ImportMode.ONTO_BRANCH
) -> tuple[OperationResult, ConflictSource | None]:
    """Import all commits; return the result, and the conflicts that stop it."""
    known = [one.id for one in session.inspect().changes.commits]
    again = make_importer(review, session.store, known, (way, ""), with_trailers=False)
    ended, done = try_import(again, {})
    if done is None or not done.resolvable:
        return ended, None
    return ended, ConflictSource(done, again, ("s", str(session.root)), ENVIRON, session.session.folder)


def resolve(source: ConflictSource, answers: Mapping[bytes, ConflictResolution]) -> OperationResult:
    """Resolve some paths, and import the commits."""
    for path, answer in answers.items():
        result = source.resolve(Key(0, path), answer)
        assert result is not None
        assert result.is_clean
    return source.merge(Selection(frozenset(Key(0, path) for path in answers)), lambda _done, _whole: None)


def import_with_conflicts(
    session: GitSession, review: Callable[[], Review], way: ImportMode = ImportMode.ONTO_BRANCH
) -> ConflictSource:
    """End a session whose commits conflict with the user's; return the conflicts."""
    session.end()
    ended, source = start_import(session, review(), way)
    assert (ended.may_have_changed, source is not None) == (False, True)
    assert source is not None
    assert ended.conflicts == len(source.changes.changes)
    return source
