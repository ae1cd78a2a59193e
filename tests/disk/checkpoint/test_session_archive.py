"""The archive of a merged session holds its directories exactly; a damaged or too large one changes nothing."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.checkpoint import session_archive
from agent_dev.errors import UnreadableSession
from agent_dev.fs import checksummed_json
from agent_dev.merge import session_access
from agent_dev.session import store
from agent_dev.session.sessions import ListedSession
from tests.harness.ended_session import EndedSession

PARTS = ("git", "roots/0/upper/.git")


def shape(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return what a session's directory contains, without the record: path → mode, links, content, attributes, a file's time."""
    found: dict[str, tuple[object, ...]] = {}
    for parent, folders, files in os.walk(os.fsencode(folder)):
        for name in (*folders, *files, b"."):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            attributes = {one: os.getxattr(path, one, follow_symlinks=False) for one in os.listxattr(path, follow_symlinks=False)}
            kind = stat.S_IFMT(status.st_mode)
            content = os.readlink(path) if kind == stat.S_IFLNK else read(path) if kind == stat.S_IFREG else b""
            links, time = (0, 0) if kind == stat.S_IFDIR else (status.st_nlink, status.st_mtime_ns)
            found[os.fsdecode(os.path.relpath(path, os.fsencode(folder)))] = (status.st_mode, links, content, attributes, time)
    return {path: one for path, one in found.items() if not path.startswith("session.json")}


def read(path: bytes) -> bytes:
    """Return the content of a file, also of one that is unreadable for its owner."""
    mode = os.lstat(path).st_mode
    os.chmod(path, mode | 0o400)
    with open(path, "rb") as file:
        data = file.read()
    os.chmod(path, mode)
    return data


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[EndedSession]:
    """Yield a locked session whose agent's git directory has every kind of file."""
    with EndedSession(tmp_path, {}, []) as one:
        git = one.upper / ".git"
        (git / "objects/ab").mkdir(parents=True)
        (git / "objects/ab/cd").write_bytes(bytes(range(256)) * 9000)
        os.link(git / "objects/ab/cd", git / "objects/another")
        (git / "empty").mkdir()
        (git / "index").write_bytes(b"")
        (git / "link").symlink_to("/nowhere")
        Path(os.fsdecode(os.fsencode(git) + b"/\xff")).write_text("not UTF-8")
        os.mkfifo(git / "fifo", 0o640)
        (git / "hook").write_text("#!/bin/sh\n")
        (git / "hook").chmod(0o4755)
        (git / "secret").write_text("unreadable")
        (git / "secret").chmod(0)
        os.utime(git / "hook", ns=(1, 1_234_567_890_123_456_789))
        os.setxattr(git, "user.overlay.opaque", b"y")
        os.setxattr(git / "hook", "user.note", b"\0")
        for number in range(300):  # more than one process would read
            (git / f"objects/{number}").write_text(str(number))
        git.chmod(0o750)
        Path(one.session.folder, "git").mkdir()
        Path(one.session.folder, "git/refs").write_text("{}")
        yield one


def archive(one: EndedSession) -> Path:
    return Path(one.session.folder, store.ARCHIVE)


def test_all_directories_are_restored_exactly(ended: EndedSession) -> None:
    folder = Path(ended.session.folder)
    before, record = shape(folder), store.read_record(ended.session)
    assert session_archive.store_directories(ended.session, PARTS, {})
    assert store.read_record(ended.session)["version"] == store.ARCHIVED_VERSION, "an older program would run an agent on it"
    assert not any((folder / part).exists() for part in PARTS)
    session_archive.restore_directories(ended.session)
    assert (shape(folder), store.read_record(ended.session)) == (before, record)
    session_archive.restore_directories(ended.session)  # there is none
    assert (shape(folder), store.read_record(ended.session)) == (before, record)


def test_what_a_killed_process_left_at_a_directory_is_replaced(ended: EndedSession) -> None:
    before = shape(Path(ended.session.folder))
    session_archive.store_directories(ended.session, PARTS, {})
    (ended.upper / ".git/objects/ab").mkdir(parents=True)
    (ended.upper / ".git/stale").write_text("x")
    assert not session_archive.store_directories(ended.session, PARTS[1:], {}), "the archive was overwritten with a part"
    session_archive.restore_directories(ended.session)
    assert shape(Path(ended.session.folder)) == before


def test_hard_links_are_made_again_from_their_store(ended: EndedSession, tmp_path: Path) -> None:
    links = Path(ended.session.folder, "objects/0")
    (links / "ab").mkdir(parents=True)
    (tmp_path / "objects/ab").mkdir(parents=True)
    (tmp_path / "objects/ab/cd").write_text("object")
    os.link(tmp_path / "objects/ab/cd", links / "ab/cd")
    session_archive.store_directories(ended.session, PARTS, {"objects/0": str(tmp_path / "objects")})
    assert not links.exists()
    (tmp_path / "objects/ab/ef").write_text("newer")
    session_archive.restore_directories(ended.session)
    assert {path.name for path in (links / "ab").iterdir()} == {"cd", "ef"}
    assert (links / "ab/cd").samefile(tmp_path / "objects/ab/cd")


def test_a_damaged_archive_is_reported_and_can_be_discarded(ended: EndedSession) -> None:
    session_archive.store_directories(ended.session, PARTS, {})
    data = archive(ended).read_bytes()
    for damaged in (b"", data[:-1], data[:-9] + bytes((data[-9] ^ 1,)) + data[-8:]):
        archive(ended).write_bytes(damaged)
        with pytest.raises(UnreadableSession, match="archive is damaged"):
            session_archive.restore_directories(ended.session)
        assert not (ended.upper / ".git").exists()
    store.unlock_session(ended.session)
    listed = ListedSession(ended.session.replace(lock=-1), store.read_record(ended.session), store.MERGED)
    with pytest.raises(UnreadableSession):
        session_access.lock_ended(listed)
    path = session_access.discard(ended.here(), listed)
    ended.session = store.lock_session(ended.session.replace(folder=path))


def test_an_archive_of_a_newer_version_is_refused(ended: EndedSession) -> None:
    session_archive.store_directories(ended.session, PARTS, {})
    data = archive(ended).read_bytes().replace(b'"version":1', b'"version":2', 1)
    archive(ended).write_bytes(checksummed_json.add_checksum(b"{" + data[checksummed_json.HEAD_SIZE :]))
    with pytest.raises(UnreadableSession, match="version 2"):
        session_archive.restore_directories(ended.session)


def test_too_large_directories_are_not_archived(ended: EndedSession) -> None:
    with open(ended.upper / ".git/sparse", "wb") as file:
        file.truncate(session_archive.MAX_SIZE + 1)
    before = shape(Path(ended.session.folder) / "git")
    assert not session_archive.store_directories(ended.session, PARTS, {})
    assert not archive(ended).exists()
    assert shape(Path(ended.session.folder) / "git") == before
