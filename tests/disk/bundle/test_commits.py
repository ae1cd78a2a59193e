"""Sessions with commits in one or two repositories: importing them at the exporter and at the importer gives the same result."""

import atexit
import os
import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest

from agent_dev.bundle import importing
from agent_dev.bundle.export import SessionExport
from agent_dev.errors import BadBundle, CannotImport
from agent_dev.fs import checksummed_json
from agent_dev.fs.entry import FileType
from agent_dev.merge import merge
from agent_dev.overlay.selection import Selection
from agent_dev.session import store
from tests.disk.bundle import bundles
from tests.disk.commits.import_world import graces_repository
from tests.harness import trees
from tests.harness.faults import faults
from tests.harness.git.git_session import AgentRoot, GitSession
from tests.harness.repository import ENVIRON, git
from tests.harness.scale import repeat, seeded_random

NAMES = ("a.txt", "new.txt", "sub/b.txt", "sub/c.txt", "sub/deep/d", "ä b\n", "-x")
KINDS = ("write", "write", "write", "delete", "link", "mode", "directory", "replace")


class QuickSession(GitSession):
    """A session without risk rules."""

    with_risks = False


@cache
def template() -> Path:
    """Return a repository that is created once and copied for each session."""
    folder = Path(mkdtemp(dir=faults.memory_directory()))
    atexit.register(shutil.rmtree, folder)
    return graces_repository(folder / "root")


def change_something(chance: random.Random, one: AgentRoot) -> None:
    """Let the agent edit, create, delete, link or chmod a path, create its directory again, or replace it by a file."""
    path = one.agent / chance.choice(NAMES)
    kind, top = chance.choice(KINDS), one.agent / "sub"
    if kind in ("directory", "replace") or not top.is_dir():
        shutil.rmtree(top) if top.is_dir() else top.unlink(missing_ok=True)
    if kind == "replace":
        top.write_text("a file\n")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind in ("delete", "link") and os.path.lexists(path):
        path.unlink()
    if kind == "link":
        path.symlink_to(chance.choice(("a.txt", "nowhere")))
    elif kind == "mode" and path.is_file() and not path.is_symlink():
        path.chmod(chance.choice((0o644, 0o755, 0o600)))
    elif kind in ("write", "directory") and not path.is_symlink():
        path.write_text("".join(chance.choice("ab\n") for _ in range(20)))


def let_agent_work(chance: random.Random, one: AgentRoot) -> None:
    """Let the agent make commits on some branches, tags and uncommitted changes."""
    for number in range(chance.randrange(4)):
        if chance.random() < 0.2:
            one.run_git("checkout", "-q", "-b", f"side-{number}")
        for _ in range(chance.randrange(3)):
            change_something(chance, one)
        one.commit(f"commit {number}")
        if chance.random() < 0.2:
            one.run_git("tag", f"v{number}")
    for _ in range(chance.randrange(3)):
        change_something(chance, one)


def add_attributes(chance: random.Random, one: AgentRoot) -> None:
    """Give some files of the upper layer an attribute."""
    files = [path for path in sorted(one.upper.rglob("*")) if path.is_file() and not path.is_symlink()]
    for path in files:
        if ".git" not in path.relative_to(one.upper).parts and chance.random() < 0.2:
            os.setxattr(path, "user.note", chance.randbytes(4))


def imported(session: GitSession, folder: Path) -> GitSession:
    """Bundle a session, and import it over copies of its roots, locked."""
    export = SessionExport(session.session, store.read_record(session.session), ENVIRON)
    try:
        data = bundles.bundle_of(export)
    finally:
        export.close()
    roots = [bundles.copied_root(one.root, folder / f"copy-{number}") for number, one in enumerate(session.agent_roots)]
    context = bundles.context_at(roots[0], folder / "other-state")
    bundle = importing.open_bundle(data, lambda *_: "")
    made = importing.import_bundle(bundle, context, importing.ImportRequest(further_roots=tuple(map(str, roots[1:]))))
    other = QuickSession.__new__(QuickSession)
    other.root, other.store, other.printed = roots[0], context.store, []
    other.session = store.lock_session(made)
    other.record = store.read_record(made)
    return other


def take_everything(session: GitSession) -> list[object]:
    """Import the commits and apply the files; return what was said, and the state of each root."""
    try:
        done = session.import_commits(onto_current=True)
        output: list[object] = [
            [(one.ref, one.after, one.reason) for one in done.repositories],
            sorted(map(str, done.conflicts)),
        ]
    except CannotImport as error:
        output = [error.message]
    review = session.review()
    try:
        keys = frozenset(change.key for change in review.changes.changes if change.is_clean)
        applied = merge.apply_plan(review, merge.plan_selection(review, Selection(keys), keys), session.store)
        output.append(sorted(map(str, (change.key for change in applied.applied))))
    finally:
        review.close()
    output.append(store.read_record(session.session)["state"])
    return [*output, *(state_of(Path(root)) for root in session.record["roots"])]


def state_of(root: Path) -> tuple[object, ...]:
    """Return the files with their attributes, the branches and the index of a root."""
    found = {path: node for path, node in trees.read(root).items() if not path.startswith(b".git")}
    places = {path: os.fsencode(root / os.fsdecode(path)) for path, node in found.items() if node.type is FileType.FILE}
    notes = {path: [(name, os.getxattr(at, name)) for name in os.listxattr(at)] for path, at in places.items()}
    files = {path: (node.type, node.content, node.mode, notes.get(path)) for path, node in found.items()}
    return files, git(root, "for-each-ref", "refs/heads", "refs/tags"), git(root, "ls-files", "-s")


def test_commits_imported_here_equal_commits_imported_there() -> None:
    chance = seeded_random()
    for number in range(repeat(20)):
        with TemporaryDirectory(dir=faults.memory_directory()) as place:
            folder = Path(place)
            names = ["root", "other"] if chance.random() < 0.5 else ["root"]
            with QuickSession(folder, *(bundles.copied_root(template(), folder / name) for name in names)) as session:
                for one in session.agent_roots:
                    let_agent_work(chance, one)
                session.end()
                for one in session.agent_roots:
                    add_attributes(chance, one)
                there = imported(session, folder)
                with there:
                    assert take_everything(session) == take_everything(there), number


@pytest.fixture
def session(tmp_path: Path) -> GitSession:
    return GitSession(tmp_path, graces_repository(tmp_path / "root"), graces_repository(tmp_path / "other"))


def test_commits_of_a_root_without_git_are_refused(session: GitSession, tmp_path: Path) -> None:
    with session:
        session.agent_roots[1].commit("two", b__txt="other\n")
        session.end()
        shutil.rmtree(tmp_path / "other/.git")
        with pytest.raises(BadBundle, match="not a git repository"):
            imported(session, tmp_path)
    assert not store.all_sessions(store.Store(str(tmp_path / "other-state")))


@pytest.mark.parametrize("numbers", [[1, 0], [0, 0], [2], [-1], [True], ["0"]])
def test_repositories_that_no_export_writes_are_refused(session: GitSession, tmp_path: Path, numbers: list[object]) -> None:
    with session:
        session.end()
        export = SessionExport(session.session, store.read_record(session.session), ENVIRON)
        try:
            data = bundles.bundle_of(export).getvalue()
        finally:
            export.close()
    value = checksummed_json.loads(bundles.members(data)[0][1])
    value["git"] = [{**value["git"][0], "root": number} for number in numbers]
    context = bundles.context_at(tmp_path / "root", tmp_path / "state-2")
    with pytest.raises(BadBundle):
        bundles.imported(bundles.with_manifest(data, value), context)
