"""What the agent committed is found, and nothing in its git directory can run, hang or lead elsewhere."""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agent_dev.core.commits import Commit
from agent_dev.core.found import Found
from agent_dev.errors import AgentDevError
from agent_dev.host import bare, commits, private_git, refs, store
from tests.harness.repository import ENVIRON, commit, git, has_run, plant, repository, trap

LONGEST = bare.SECONDS + 10


class Session:
    """An ended session whose agent had a private git directory in its upper; what `inside` does is the agent's doing."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.root, self.store = root, store.Store(str(folder / "state"))
        self.session = store.create(self.store)
        upper = Path(store.add_root(self.session, 0, str(root)).upper)
        self.git, self.inside = upper / ".git", upper
        os.mkdir(f"{self.session.folder}/git")
        made = private_git.make(private_git.Wish(f"{root}/.git", str(self.git), f"{self.session.folder}/git/farm", "0"), "")
        self._stores = made.stores
        self.record: store.Record = {
            **store.BLANK,
            "root": str(root),
            "roots": [str(root)],
            "agent_home": str(folder / "aihome"),
            "git": {"folder": f"{root}/.git", "common": f"{root}/.git", "inside": True},
            "stores": [list(pair) for pair in made.stores],
        }
        refs.remember(self.session, self.record)

    def let_agent(self, *words: str) -> str:
        """Run git as the agent does, with the stores where the agent sees them."""
        alternates = self.git / "objects/info/alternates"
        text = alternates.read_text()
        alternates.write_text("".join(f"{outside}\n" for outside, _ in self._stores))
        said = git(self.inside, *words)
        alternates.write_text(text)
        return said

    def let_commit(self, subject: str) -> str:
        self.let_agent("commit", "-q", "--allow-empty", "-m", subject)
        return self.let_agent("rev-parse", "HEAD").strip()

    def made(self) -> tuple[Commit, ...]:
        """Ask for the commits; fail when the answer takes too long."""
        start = time.monotonic()
        try:
            return commits.made(self.session, self.record, ENVIRON)
        finally:
            assert time.monotonic() - start < LONGEST
            assert not list(Path(self.session.folder).glob("skeleton-*"))

    def has_moved(self) -> bool:
        return refs.has_moved(self.session, self.record)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, repository(tmp_path / "root"))


# --- what was committed ---


def test_without_commits_there_are_none(session: Session) -> None:
    assert (session.made(), session.has_moved()) == ((), False)


def test_commits_come_with_id_and_subject_the_newest_first(session: Session) -> None:
    first, second = session.let_commit("one"), session.let_commit("two")

    assert session.made() == (Commit(second, "two"), Commit(first, "one"))
    assert session.has_moved()


def test_commits_of_all_branches_are_found(session: Session) -> None:
    here = session.let_commit("here")
    session.let_agent("checkout", "-q", "-b", "x", "HEAD~1")
    there = session.let_commit("there")
    session.let_agent("checkout", "-q", "--detach")
    loose = session.let_commit("detached")

    assert {one.id for one in session.made()} == {here, there, loose}


def test_the_users_own_commits_are_not_the_agents(session: Session) -> None:
    made = session.let_commit("agent's")
    commit(session.root, "user's")

    assert [one.id for one in session.made()] == [made]


def test_packed_commits_and_refs_are_found(session: Session) -> None:
    made = session.let_commit("packed")
    session.let_agent("gc", "-q")

    assert [one.id for one in session.made()] == [made]


@pytest.mark.parametrize("words", ["checkout -q -b x", "branch y", "tag v1", "checkout -q HEAD~1", "branch -f main HEAD~1"])
def test_a_ref_that_moved_to_known_commits_brings_none(session: Session, words: str) -> None:
    session.let_agent("checkout", "-q", "--detach")
    refs.remember(session.session, session.record)
    session.let_agent(*words.split())

    assert (session.made(), session.has_moved()) == ((), True)


def test_a_removed_branch_brings_none(session: Session) -> None:
    git(session.root, "branch", "x")
    session.let_agent("update-ref", "-d", "refs/heads/main")

    assert session.made() == ()
    assert session.has_moved()


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        ("checkout -q --detach", ()),
        ("checkout -q HEAD~1", ()),
        ("checkout -q -b x", ("refs/heads/x",)),
        ("tag -a -m note v1", ("refs/tags/v1",)),
        ("branch -m main trunk", ("refs/heads/main", "refs/heads/trunk")),
        ("reset -q --soft HEAD~1", ("refs/heads/main",)),
    ],
)
def test_moved_are_branches_and_tags_and_not_head_alone(session: Session, words: str, moved: tuple[str, ...]) -> None:
    commit(session.root, "second")
    again = Session(session.root.parent / "again", session.root)
    again.let_agent(*words.split())

    assert refs.moved(again.session, again.record, ENVIRON) == moved
    assert again.made() == ()


def test_an_amended_commit_is_the_agents(session: Session) -> None:
    session.let_agent("commit", "-q", "--amend", "-m", "amended")

    assert [one.subject for one in session.made()] == ["amended"]


@pytest.mark.parametrize("subject", ["\x1b[2J", "ä", "with \u202e bidi", "%s %H", "-n"])
def test_any_subject_comes_back(session: Session, subject: str) -> None:
    session.let_commit(subject)

    assert [one.subject for one in session.made()] == [subject]


def test_commits_of_a_repository_with_sha256_are_found(tmp_path: Path) -> None:
    session = Session(tmp_path, repository(tmp_path / "root", "--object-format=sha256"))
    made = session.let_commit("one")

    assert session.made() == (Commit(made, "one"),)


def test_commits_of_a_shallow_clone_are_found(tmp_path: Path) -> None:
    repository(tmp_path / "whole")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tmp_path}/whole", "root")
    session = Session(tmp_path, tmp_path / "root")
    made = session.let_commit("one")

    assert [one.id for one in session.made()] == [made]


def test_a_session_without_git_has_no_commits(tmp_path: Path) -> None:
    one = store.create(store.Store(str(tmp_path / "state")))

    assert commits.made(one, store.BLANK, ENVIRON) == ()
    assert not refs.has_moved(one, store.BLANK)


def test_nothing_outside_is_written(session: Session) -> None:
    session.let_commit("one")
    before = {path: path.read_bytes() for path in session.root.rglob("*") if path.is_file()}
    session.made()

    assert {path: path.read_bytes() for path in session.root.rglob("*") if path.is_file()} == before


# --- hostile git directories ---


def test_no_program_that_the_agent_planted_is_executed(session: Session, tmp_path: Path) -> None:
    planted = trap(tmp_path / "traps")
    made = session.let_commit("one")
    plant(session.git, planted)
    (session.inside / ".gitattributes").write_text("* filter=trap diff=trap\n")

    assert [one.id for one in session.made()] == [made]
    assert not has_run(planted)


def test_no_program_that_the_agent_put_into_its_home_or_the_tree_is_executed(session: Session, tmp_path: Path) -> None:
    session.let_commit("one")
    planted = trap(session.root / "bin")
    planted.rename(planted.with_name("git"))
    (session.root / "bin/git").chmod(0o755)
    environ = ENVIRON | {"PATH": f"{session.root}/bin:{ENVIRON['PATH']}"}

    assert len(commits.made(session.session, session.record, environ)) == 1
    assert not (session.root / "bin/trap.ran").exists()


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def turn_into_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pack_of(session: Session, end: str) -> Path:
    session.let_agent("repack", "-qad")
    return next((session.git / "objects/pack").glob(f"*.{end}"))


def loose_object(session: Session, oid: str) -> Path:
    return session.git / "objects" / oid[:2] / oid[2:]


HANGS: dict[str, Callable[[Session], object]] = {
    "a FIFO as a ref": lambda session: fifo(session.git / "refs/heads/x"),
    "a FIFO as HEAD": lambda session: fifo(session.git / "HEAD"),
    "a FIFO as packed-refs": lambda session: fifo(session.git / "packed-refs"),
    "a FIFO as config": lambda session: fifo(session.git / "config"),
    "a FIFO as a pack's index": lambda session: fifo(pack_of(session, "idx")),
    "a FIFO as a pack": lambda session: fifo(pack_of(session, "pack")),
    "a FIFO as an object": lambda session: fifo(session.git / "objects/aa" / ("b" * 38)),
    "a FIFO as alternates": lambda session: fifo(session.git / "objects/info/alternates"),
    "a FIFO as a commit graph": lambda session: fifo(session.git / "objects/info/commit-graph"),
    "a FIFO as shallow": lambda session: fifo(session.git / "shallow"),
    "a pack of zeros": lambda session: (session.git / "objects/pack/pack-0.pack").write_bytes(bytes(1000)),
    "an index of zeros": lambda session: (session.git / "objects/pack/pack-0.idx").write_bytes(bytes(5000)),
    "a link to itself as a ref": lambda session: (session.git / "refs/heads/x").symlink_to("x"),
    "a link to a device as a ref": lambda session: (session.git / "refs/heads/x").symlink_to("/dev/zero"),
    "a link to a device as packed-refs": lambda session: link(session.git / "packed-refs", "/dev/zero"),
    "a huge ref": lambda session: (session.git / "refs/heads/x").write_bytes(b"a" * 10_000_000),
    "no refs at all": lambda session: shutil.rmtree(session.git / "refs"),
    "no objects at all": lambda session: shutil.rmtree(session.git / "objects"),
    "nothing at all": lambda session: shutil.rmtree(session.git),
    "a ref to a tree": lambda session: (session.git / "refs/heads/x").write_text(session.let_agent("rev-parse", "HEAD^{tree}")),
    "a ref to nothing": lambda session: (session.git / "refs/heads/x").write_text("1" * 40),
    "a ref that is an option": lambda session: (session.git / "refs/heads/x").write_text("--output=/tmp/x"),
    "a directory for HEAD": lambda session: turn_into_a_directory(session.git / "HEAD"),
}


@pytest.mark.parametrize("hang", HANGS)
def test_whatever_the_agent_left_asking_ends_soon(session: Session, hang: str) -> None:
    session.let_commit("one")
    HANGS[hang](session)
    session.has_moved()
    with suppress(AgentDevError):
        session.made()


@pytest.mark.parametrize(
    "hang",
    [
        "a FIFO as a ref",
        "a link to a device as a ref",
        "a FIFO as config",
        "a FIFO as shallow",
        "a ref that is an option",
        "a FIFO as a commit graph",
    ],
)
def test_what_is_no_ref_or_object_hides_no_commit(session: Session, hang: str) -> None:
    made = session.let_commit("one")
    HANGS[hang](session)

    assert [one.id for one in session.made()] == [made]


@pytest.mark.parametrize("depth", [900, 1_500, 3_000])
def test_refs_of_any_depth_end_soon(abyss: Path, depth: int) -> None:
    session = Session(abyss, repository(abyss / "root"))
    made = session.let_commit("one")
    here = os.open(session.git / "refs/heads", os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    assert [one.id for one in session.made()] == [made]


def test_objects_that_a_link_leads_to_are_not_borrowed(session: Session, tmp_path: Path) -> None:
    made, _ = session.let_commit("one"), session.let_commit("two")
    place, objects = loose_object(session, made), session.git / "objects"
    place.parent.rename(tmp_path / "elsewhere")
    place.parent.symlink_to(tmp_path / "elsewhere")
    (objects / "pack/pack-0.pack").symlink_to(tmp_path / "elsewhere" / place.name)
    (objects / "00").write_bytes(b"no directory")
    borrowed = bare.skeleton(str(tmp_path), "git", str(session.git), ())

    assert not list(Path(borrowed.path).rglob(place.name))
    assert [path for path in Path(borrowed.path, "objects").rglob("*") if not path.is_dir() and path.name != "alternates"]
    assert not [path for path in Path(borrowed.path).rglob("*") if path.is_symlink() or path.name in ("pack-0.pack", "00")]


def test_objects_behind_the_agents_alternates_are_not_read(session: Session, tmp_path: Path) -> None:
    secret = repository(tmp_path / "secret")
    (secret / "x").touch()
    oid = commit(secret, "a secret subject")
    (session.git / "objects/info/alternates").write_text(f"{secret}/.git/objects\n")
    (session.git / "refs/heads/x").write_text(f"{oid}\n")

    assert not any(one.subject == "a secret subject" for one in session.made())


def test_a_link_as_an_object_leads_nowhere(session: Session, tmp_path: Path) -> None:
    secret = repository(tmp_path / "secret")
    oid = commit(secret, "a secret subject")
    place = loose_object(session, oid)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(secret / ".git/objects" / oid[:2] / oid[2:])
    (session.git / "refs/heads/x").write_text(f"{oid}\n")

    assert not any(one.subject == "a secret subject" for one in session.made())


def test_a_link_as_a_directory_of_objects_leads_nowhere(session: Session, tmp_path: Path) -> None:
    secret = repository(tmp_path / "secret")
    oid = commit(secret, "a secret subject")
    shutil.rmtree(loose_object(session, oid).parent, ignore_errors=True)
    loose_object(session, oid).parent.symlink_to(secret / ".git/objects" / oid[:2])
    (session.git / "refs/heads/x").write_text(f"{oid}\n")

    assert not any(one.subject == "a secret subject" for one in session.made())


def test_replaced_objects_replace_nothing(session: Session) -> None:
    made = session.let_commit("true")
    other = session.let_agent("commit-tree", "-m", "forged", "HEAD^{tree}").strip()
    session.let_agent("replace", made, other)

    assert "true" in [one.subject for one in session.made()]


# --- what was fetched ---


def let_fetch(session: Session) -> str:
    """Let somebody else have a commit with a tag, and the agent fetch it; return its id."""
    other = repository(session.root.parent / "other")
    (other / "theirs").touch()
    theirs = commit(other, "upstream")
    git(other, "tag", "v9")
    session.let_agent("remote", "add", "origin", str(other))
    session.let_agent("fetch", "-q", "--tags", "origin")
    return theirs


def look(session: Session) -> Found:
    with commits.opened(session.session, session.record, ENVIRON) as skeleton:
        return commits.found(session.session, session.record, skeleton, ENVIRON)


def test_what_was_only_fetched_is_not_the_agents(session: Session) -> None:
    let_fetch(session)
    own = session.let_commit("own")
    found = look(session)

    assert [one.id for one in session.made()] == [own]
    assert [one.id for one in found.commits] == [own]
    assert found.fetched >= 1
    assert not found.remote
    assert "refs/remotes/origin/main" in {one.name for one in found.refs}


def test_what_is_on_a_branch_of_the_agents_is_told_wherever_else_it_is(session: Session) -> None:
    theirs = let_fetch(session)
    session.let_agent("checkout", "-q", "-b", "x", "origin/main")
    own = session.let_commit("on top")
    found = look(session)

    assert {one.id for one in found.commits} >= {own, theirs}
    assert theirs in found.remote
    assert own not in found.remote
    assert found.fetched == 0


def test_what_the_agent_tagged_is_its_own(session: Session) -> None:
    let_fetch(session)
    session.let_agent("checkout", "-q", "--detach")
    own = session.let_commit("tagged")
    session.let_agent("tag", "mine")
    session.let_agent("checkout", "-q", "main")

    assert [one.id for one in look(session).commits] == [own]
