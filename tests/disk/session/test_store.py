"""Sessions on disk: ids, locks, records, the removal of incomplete sessions, records of another version."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.errors import SessionBusy, UnreadableSession, UnusableStateDirectory
from agent_dev.fs import checksummed_json, fast_json
from agent_dev.session import removal, sessions, store
from agent_dev.session.store import Session, Store
from tests.harness.program import wait_until
from tests.harness.users import call_as_ordinary_user, ordinary_users_directory

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def place(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def session(place: Store) -> Iterator[Session]:
    session = store.create_session(place)
    yield session
    try:
        store.unlock_session(session)
    except OSError:
        return  # the test has already released the lock


def listed(place: Store) -> list[str]:
    return [one.id for one in store.all_sessions(place)]


# --- the state directory ---


@pytest.mark.parametrize(
    ("state", "environ", "path"),
    [
        ("/srv/state", {"HOME": "/home/ada", "XDG_STATE_HOME": "/x"}, "/srv/state"),
        ("", {"HOME": "/home/ada", "XDG_STATE_HOME": "/x"}, "/x/agent-dev"),
        ("", {"HOME": "/home/ada"}, "/home/ada/.local/state/agent-dev"),
        ("", {"HOME": "/home/ada", "XDG_STATE_HOME": ""}, "/home/ada/.local/state/agent-dev"),
        ("", {"HOME": "/home/ada", "XDG_STATE_HOME": "relative"}, "/home/ada/.local/state/agent-dev"),
    ],
)
def test_the_state_directory_is_the_configured_or_default_one(state: str, environ: dict[str, str], path: str) -> None:
    assert store.state_store(state, environ).path == path


def test_querying_the_state_directory_creates_nothing(tmp_path: Path) -> None:
    store.state_store(str(tmp_path / "state"), {})

    assert os.listdir(tmp_path) == []


# --- creation ---


def test_a_session_and_its_parents_are_private_to_their_user(place: Store, session: Session) -> None:
    for folder in (place.path, place.sessions, place.merges, place.trash, session.folder):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_ids_sort_by_time(place: Store) -> None:
    made = []
    for _ in range(20):
        made.append(store.create_session(place))
        time.sleep(0.002)
    for one in made:
        store.unlock_session(one)

    assert listed(place) == [one.id for one in made]


def test_sessions_stay_in_order_if_the_clock_is_set_back(place: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((*range(10**18, 10**18 - 5 * 10**16, -(10**16)), *(10**18,) * 4))
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    made = []
    for number in range(9):
        made.append(store.create_session(place))
        store.unlock_session(made[-1])
        if number == 2:  # an undiscarded session keeps its place, too
            removal.move_to_trash(place, made[-1])
    os.rename(f"{place.trash}/{made[2].id}", made[2].folder)

    assert listed(place) == [one.id for one in made]


def test_ids_follow_the_clock_despite_other_names(place: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 10**18)
    store.create_session(place)
    for name in ("999999-999999-999f", "99-9999999-999-999", "home-991231-235959", "991231-235959-999"):
        (Path(place.trash) / name).mkdir()

    assert [store.create_session(place).id[:-1] for _ in range(2)] == ["010909-014640-001", "010909-014640-002"]


def test_ids_are_unique_for_concurrent_starts(place: Store) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from agent_dev.session import store\n"
        f"print(*(store.create_session(store.Store({place.path!r})).id for _ in range(60)))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    ids = [name for one in running for name in one.communicate()[0].split()]

    assert len(ids) == len(set(ids)) == 240
    assert sorted(ids) == listed(place)


@pytest.mark.parametrize("bar", ["file", "read-only"])
def test_an_unusable_state_directory_is_reported(bar: str) -> None:
    def act() -> None:
        if bar == "file":
            (folder / "state").touch()
        else:
            (folder / "state").mkdir(0o500)
            folder.chmod(0o500)

        with pytest.raises(UnusableStateDirectory, match="cannot be used") as caught:
            store.create_session(Store(str(folder / "state/deeper")))
        assert caught.value.hint

    with ordinary_users_directory() as folder:
        call_as_ordinary_user(act)


def test_an_upper_has_its_roots_own_mode(session: Session, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o2751)
    made = store.add_root(session, 0, str(root))

    assert stat.S_IMODE(os.stat(made.upper).st_mode) == 0o2751
    assert (os.listdir(made.upper), os.listdir(made.work)) == ([], [])


# --- locks ---


def test_a_session_is_locked_from_its_creation(session: Session) -> None:
    assert store.is_locked(session)
    with pytest.raises(SessionBusy, match=session.id):
        store.lock_session(session)


def test_a_released_session_can_be_locked_once(session: Session) -> None:
    store.unlock_session(session)
    held = store.lock_session(session)

    assert store.is_locked(session)
    with pytest.raises(SessionBusy):
        store.lock_session(session)
    store.unlock_session(held)
    assert not store.is_locked(session)


def test_a_lock_ends_with_the_process_that_holds_it(place: Store) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "import time; from agent_dev.session import store\n"
        f"print(store.create_session(store.Store({place.path!r})).id, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        name = running.stdout.readline().strip()
        (session,) = store.all_sessions(place)
        assert (session.id, store.is_locked(session)) == (name, True)
        running.send_signal(signal.SIGKILL)

    assert not store.is_locked(session)


def test_a_lock_is_not_inherited_by_a_started_program(session: Session) -> None:
    assert fcntl.fcntl(session.lock, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_a_deleted_session_is_locked_by_nobody(place: Store) -> None:
    assert not store.is_locked(Session("none", f"{place.sessions}/none"))


def test_sessions_are_created_and_listed_concurrently(place: Store) -> None:
    begin = (
        "for _ in range(150):\n    one = store.create_session(place)\n    store.write_record(one, store.BLANK)\n"
        "    store.unlock_session(one)\n"
    )
    look = (
        "for _ in range(150):\n    removal.sweep_leftovers(place)\n"
        "    [store.is_locked(one) for one in store.all_sessions(place)]\n"
    )
    start = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        f"from agent_dev.session import removal, store\nplace = store.Store({place.path!r})\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", start + code], stderr=subprocess.PIPE, text=True)
        for code in (begin, begin, look, look)
    ]
    errors = [one.communicate()[1] for one in running]

    assert errors == ["", "", "", ""]
    assert len(listed(place)) == 300
    assert os.listdir(place.trash) == []


def test_a_session_that_gets_its_record_during_a_sweep_is_not_swept(place: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create_session(place)

    def created_meantime(one: Session) -> bool:
        if not (Path(one.folder) / "session.json").exists():
            store.write_record(session, store.BLANK)
            store.unlock_session(session)
        return store.is_locked(one)

    monkeypatch.setattr(removal, "is_locked", created_meantime)
    removal.sweep_leftovers(place)

    assert listed(place) == [session.id]


# --- the record ---


def test_a_record_round_trips(session: Session) -> None:
    record: store.Record = {**store.BLANK, "name": "a\udcff\n", "command": ["a b", ""], "started": 2**62}
    store.write_record(session, record)
    store.sync_record(session)

    assert store.read_record(session) == {**record, "version": store.VERSION}


def test_a_record_is_replaced_atomically(session: Session) -> None:
    for number in range(5):
        store.write_record(session, {**store.BLANK, "started": number})

        assert store.read_record(session)["started"] == number
    assert sorted(os.listdir(session.folder)) == ["roots", "session.json"]


@pytest.mark.parametrize("version", [0, 3, 99, "1", None])
def test_a_record_of_another_version_is_refused_and_unchanged(session: Session, version: object) -> None:
    data = checksummed_json.add_checksum(fast_json.dumps({**store.BLANK, "version": version}))
    path = Path(session.folder) / "session.json"
    path.write_bytes(data)

    with pytest.raises(UnreadableSession, match="version") as caught:
        store.read_record(session)
    assert "nothing was changed" in str(caught.value)
    assert caught.value.hint
    assert path.read_bytes() == data


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"null", b'{"version": 1', b"\xff", b"{}"])
def test_a_torn_record_is_refused_and_unchanged(session: Session, data: bytes) -> None:
    path = Path(session.folder) / "session.json"
    path.write_bytes(data)

    with pytest.raises(UnreadableSession, match=session.id):
        store.read_record(session)
    assert path.read_bytes() == data


def test_a_session_without_a_record_is_unreadable(session: Session) -> None:
    with pytest.raises(UnreadableSession):
        store.read_record(session)


# --- the sweep ---


def test_an_incomplete_session_is_moved_to_the_trash(place: Store, session: Session) -> None:
    Path(session.folder, "kept").touch()
    store.unlock_session(session)
    removal.sweep_leftovers(place)

    assert listed(place) == []
    assert sorted(os.listdir(f"{place.trash}/{session.id}")) == ["kept", "roots"]


@pytest.mark.parametrize("has_roots", [False, True])
def test_a_session_killed_while_it_was_created_is_removed(place: Store, session: Session, *, has_roots: bool) -> None:
    if not has_roots:
        os.rmdir(f"{session.folder}/roots")
    store.unlock_session(session)
    removal.sweep_leftovers(place)

    assert listed(place) == os.listdir(place.removals_folder) == []
    assert not os.path.exists(f"{place.trash}/{session.id}")


def test_a_locked_session_without_a_record_stays(place: Store, session: Session) -> None:
    removal.sweep_leftovers(place)

    assert listed(place) == [session.id]


def test_a_recent_removal_needs_no_sweep(place: Store, session: Session) -> None:
    store.write_record(session, store.BLANK)
    os.makedirs(f"{place.removals_folder}/x")

    assert not removal.has_leftovers(place)


def test_an_old_removal_or_a_session_without_a_record_needs_a_sweep(
    place: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert removal.has_leftovers(place)
    store.write_record(session, store.BLANK)
    assert not removal.has_leftovers(place)
    os.makedirs(f"{place.removals_folder}/x")
    monkeypatch.setattr(removal, "_MIN_AGE", -1)
    assert removal.has_leftovers(place)


@pytest.mark.parametrize("data", [b"", b'{"version": 99}'])
def test_a_session_with_any_record_stays(place: Store, session: Session, data: bytes) -> None:
    Path(session.folder, "session.json").write_bytes(data)
    store.unlock_session(session)
    removal.sweep_leftovers(place)

    assert listed(place) == [session.id]


def test_an_interrupted_removal_is_finished(place: Store, session: Session) -> None:
    os.makedirs(f"{place.removals_folder}/x/roots/0/work/work")
    os.chmod(f"{place.removals_folder}/x/roots/0/work/work", 0)
    removal.sweep_leftovers(place)

    assert os.listdir(place.removals_folder) == []


def test_a_sweep_without_sessions_creates_nothing(place: Store) -> None:
    removal.sweep_leftovers(place)

    assert not os.path.exists(place.path)


def test_a_stray_file_among_the_sessions_harms_nothing(place: Store, session: Session) -> None:
    Path(place.sessions, "stray").touch()
    store.write_record(session, store.BLANK)
    removal.sweep_leftovers(place)

    assert session.id in listed(place)
    assert Path(place.sessions, "stray").exists()


# --- removal and resumption ---


def test_a_removed_session_leaves_nothing(place: Store, session: Session) -> None:
    os.makedirs(f"{session.folder}/roots/0/work/work")
    os.chmod(f"{session.folder}/roots/0/work/work", 0)
    removal.remove_session_now(session)

    assert listed(place) == []


def test_a_session_removed_in_the_background_is_unlisted_immediately(place: Store, session: Session) -> None:
    left: list[str] = []
    removal.remove_session_in_background(place, session, lambda: left.append("home"))

    assert listed(place) == []
    wait_until(lambda: not os.listdir(place.removals_folder), "its files are gone")


def test_the_trash_contains_a_session_unchanged(place: Store, session: Session) -> None:
    store.write_record(session, store.BLANK)
    moved = removal.move_to_trash(place, session)

    assert moved == f"{place.trash}/{session.id}"
    assert sorted(os.listdir(moved)) == ["roots", "session.json"]
    assert listed(place) == []


def test_work_directories_of_a_session_are_removed_and_the_upper_stays(session: Session, tmp_path: Path) -> None:
    root = store.add_root(session, 0, str(tmp_path))
    store.add_cache(session, 0, "/x")
    Path(root.upper, "made").touch()
    os.mkdir(f"{root.work}/work", 0)
    removal.remove_work_directories(session)

    assert os.listdir(os.path.dirname(root.upper)) == ["upper"]
    assert os.listdir(root.upper) == ["made"]
    assert not os.path.exists(f"{session.folder}/caches")


def test_a_resumed_session_gets_an_empty_work_directory(session: Session, tmp_path: Path) -> None:
    root = store.add_root(session, 0, str(tmp_path))
    os.mkdir(f"{root.work}/work", 0)
    store.recreate_work(session, 0)

    assert os.listdir(root.work) == []


def test_a_session_that_ends_while_it_is_queried_was_not_killed(place: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create_session(place)
    running: store.Record = {**store.BLANK, "state": store.RUNNING}
    store.write_record(session, running)
    assert sessions.current_state(session, running) == store.RUNNING

    def ended_meantime(one: Session) -> bool:
        store.write_record(session, {**running, "state": store.WAITING})
        store.unlock_session(session)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(store, "is_locked", ended_meantime)
        assert sessions.current_state(session, running) == store.WAITING

    store.write_record(session, running)
    assert sessions.current_state(session, running) == store.KILLED
