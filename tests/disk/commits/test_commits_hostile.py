"""Listing the commits of a hostile git directory executes nothing, does not hang, and reads nothing outside it."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agent_dev.agent_git import commits
from agent_dev.errors import AgentDevError
from agent_dev.git import bare
from tests.disk.commits.commits_world import Session
from tests.harness.repository import ENVIRON, commit, has_run, make_trap, plant_traps, repository


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, repository(tmp_path / "root"))


def test_no_program_that_the_agent_planted_is_executed(session: Session, tmp_path: Path) -> None:
    planted = make_trap(tmp_path / "traps")
    made = session.let_commit("one")
    plant_traps(session.git, planted)
    (session.inside / ".gitattributes").write_text("* filter=trap diff=trap\n")

    assert [one.id for one in session.made()] == [made]
    assert not has_run(planted)


def test_no_program_planted_in_the_home_or_tree_is_executed(session: Session, tmp_path: Path) -> None:
    session.let_commit("one")
    planted = make_trap(session.root / "bin")
    planted.rename(planted.with_name("git"))
    (session.root / "bin/git").chmod(0o755)
    environ = ENVIRON | {"PATH": f"{session.root}/bin:{ENVIRON['PATH']}"}

    assert len(commits.list_session_commits(session.session, session.record, environ)) == 1
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
def test_hostile_prompts_and_loops_of_git_time_out(session: Session, hang: str) -> None:
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
def test_invalid_refs_and_objects_hide_no_commit(session: Session, hang: str) -> None:
    made = session.let_commit("one")
    HANGS[hang](session)

    assert [one.id for one in session.made()] == [made]


@pytest.mark.parametrize("depth", [900, 1_500, 3_000])
def test_refs_of_any_depth_are_read_quickly(abyss: Path, depth: int) -> None:
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


def test_objects_behind_a_symlink_are_not_borrowed(session: Session, tmp_path: Path) -> None:
    made, _ = session.let_commit("one"), session.let_commit("two")
    place, objects = loose_object(session, made), session.git / "objects"
    place.parent.rename(tmp_path / "elsewhere")
    place.parent.symlink_to(tmp_path / "elsewhere")
    (objects / "pack/pack-0.pack").symlink_to(tmp_path / "elsewhere" / place.name)
    unused = next(name for name in map("{:02x}".format, range(256)) if not (objects / name).exists())
    (objects / unused).write_bytes(b"no directory")
    borrowed = bare.create_linked(str(tmp_path), "git", str(session.git), ())

    assert not list(Path(borrowed.path).rglob(place.name))
    assert [path for path in Path(borrowed.path, "objects").rglob("*") if not path.is_dir() and path.name != "alternates"]
    assert not [path for path in Path(borrowed.path).rglob("*") if path.is_symlink() or path.name in ("pack-0.pack", unused)]


def test_objects_behind_the_agents_alternates_are_not_read(session: Session, tmp_path: Path) -> None:
    secret = repository(tmp_path / "secret")
    (secret / "x").touch()
    oid = commit(secret, "a secret subject")
    (session.git / "objects/info/alternates").write_text(f"{secret}/.git/objects\n")
    (session.git / "refs/heads/x").write_text(f"{oid}\n")

    assert not any(one.subject == "a secret subject" for one in session.made())


def test_a_symlink_as_an_object_is_not_followed(session: Session, tmp_path: Path) -> None:
    secret = repository(tmp_path / "secret")
    oid = commit(secret, "a secret subject")
    place = loose_object(session, oid)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(secret / ".git/objects" / oid[:2] / oid[2:])
    (session.git / "refs/heads/x").write_text(f"{oid}\n")

    assert not any(one.subject == "a secret subject" for one in session.made())


def test_a_symlink_as_an_object_directory_is_not_followed(session: Session, tmp_path: Path) -> None:
    secret = repository(tmp_path / "secret")
    oid = commit(secret, "a secret subject")
    shutil.rmtree(loose_object(session, oid).parent, ignore_errors=True)
    loose_object(session, oid).parent.symlink_to(secret / ".git/objects" / oid[:2])
    (session.git / "refs/heads/x").write_text(f"{oid}\n")

    assert not any(one.subject == "a secret subject" for one in session.made())


def test_replace_refs_replace_nothing(session: Session) -> None:
    made = session.let_commit("true")
    other = session.let_agent("commit-tree", "-m", "forged", "HEAD^{tree}").strip()
    session.let_agent("replace", made, other)

    assert "true" in [one.subject for one in session.made()]
