"""Sessions on disk: ids, locks, what was never born, what another version made."""

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

from agent_dev.errors import SessionBusy, StateUnusable, UnreadableSession
from agent_dev.fs import fast_json as quick_json
from agent_dev.session import removal as ended
from agent_dev.session import sessions, store
from agent_dev.session.store import Session, Store
from tests.harness.program import wait_until
from tests.harness.users import as_ordinary, open_place

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def session(place: Store) -> Iterator[Session]:
    session = store.create(place)
    yield session
    try:
        store.let_go(session)
    except OSError:
        return  # the test let go of it


def listed(place: Store) -> list[str]:
    return [one.id for one in store.all_sessions(place)]


# --- where ---


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
def test_the_state_directory_is_configured_else_the_users(state: str, environ: dict[str, str], path: str) -> None:
    assert store.place(state, environ).path == path


def test_asking_where_makes_nothing(tmp_path: Path) -> None:
    store.place(str(tmp_path / "state"), {})

    assert os.listdir(tmp_path) == []


# --- made ---


def test_a_session_and_all_above_it_belong_to_their_user_alone(place: Store, session: Session) -> None:
    for folder in (place.path, place.sessions, place.merges, place.trash, session.folder):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_ids_sort_by_time(place: Store) -> None:
    made = []
    for _ in range(20):
        made.append(store.create(place))
        time.sleep(0.002)
    for one in made:
        store.let_go(one)

    assert listed(place) == [one.id for one in made]


def test_ids_are_unique_however_many_begin_at_once(place: Store) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from agent_dev.session import store\n"
        f"print(*(store.create(store.Store({place.path!r})).id for _ in range(60)))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    ids = [name for one in running for name in one.communicate()[0].split()]

    assert len(ids) == len(set(ids)) == 240
    assert sorted(ids) == listed(place)


@pytest.mark.parametrize("bar", ["file", "read-only"])
def test_a_state_directory_that_cannot_be_used_is_told(bar: str) -> None:
    def act() -> None:
        if bar == "file":
            (folder / "state").touch()
        else:
            (folder / "state").mkdir(0o500)
            folder.chmod(0o500)

        with pytest.raises(StateUnusable, match="cannot be used") as caught:
            store.create(Store(str(folder / "state/deeper")))
        assert caught.value.hint

    with open_place() as folder:
        as_ordinary(act)


def test_an_upper_has_its_roots_own_mode(session: Session, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o2751)
    made = store.add_root(session, 0, str(root))

    assert stat.S_IMODE(os.stat(made.upper).st_mode) == 0o2751
    assert (os.listdir(made.upper), os.listdir(made.work)) == ([], [])


# --- locks ---


def test_a_session_is_held_from_its_first_moment(session: Session) -> None:
    assert store.is_held(session)
    with pytest.raises(SessionBusy, match=session.id):
        store.hold(session)


def test_a_session_that_was_let_go_can_be_held_once(session: Session) -> None:
    store.let_go(session)
    held = store.hold(session)

    assert store.is_held(session)
    with pytest.raises(SessionBusy):
        store.hold(session)
    store.let_go(held)
    assert not store.is_held(session)


def test_a_lock_ends_with_the_process_that_holds_it(place: Store) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "import time; from agent_dev.session import store\n"
        f"print(store.create(store.Store({place.path!r})).id, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        name = running.stdout.readline().strip()
        (session,) = store.all_sessions(place)
        assert (session.id, store.is_held(session)) == (name, True)
        running.send_signal(signal.SIGKILL)

    assert not store.is_held(session)


def test_a_lock_does_not_go_to_a_program_that_is_started(session: Session) -> None:
    assert fcntl.fcntl(session.lock, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_what_is_gone_is_held_by_nobody(place: Store) -> None:
    assert not store.is_held(Session("none", f"{place.sessions}/none"))


def test_sessions_begin_and_are_looked_at_by_many_at_once_without_harm(place: Store) -> None:
    begin = "for _ in range(150):\n    one = store.create(place)\n    store.write(one, store.BLANK)\n    store.let_go(one)\n"
    look = "for _ in range(150):\n    ended.sweep(place)\n    [store.is_held(one) for one in store.all_sessions(place)]\n"
    start = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        f"from agent_dev.session import removal as ended, store\nplace = store.Store({place.path!r})\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", start + code], stderr=subprocess.PIPE, text=True)
        for code in (begin, begin, look, look)
    ]
    errors = [one.communicate()[1] for one in running]

    assert errors == ["", "", "", ""]
    assert len(listed(place)) == 300
    assert os.listdir(place.trash) == []


def test_a_session_that_gets_its_record_while_others_sweep_is_not_swept(place: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create(place)

    def born_meanwhile(one: Session) -> bool:
        if not (Path(one.folder) / "session.json").exists():
            store.write(session, store.BLANK)
            store.let_go(session)
        return store.is_held(one)

    monkeypatch.setattr(ended, "is_held", born_meanwhile)
    ended.sweep(place)

    assert listed(place) == [session.id]


# --- the record ---


def test_a_record_comes_back_as_it_was_written(session: Session) -> None:
    record: store.Record = {**store.BLANK, "name": "a\udcff\n", "command": ["a b", ""], "started": 2**62}
    store.write(session, record)
    store.settle(session)

    assert store.read(session) == {**record, "version": store.VERSION}


def test_a_record_is_replaced_whole(session: Session) -> None:
    for number in range(5):
        store.write(session, {**store.BLANK, "started": number})

        assert store.read(session)["started"] == number
    assert sorted(os.listdir(session.folder)) == ["roots", "session.json"]


@pytest.mark.parametrize("version", [0, 2, 99, "1", None])
def test_a_record_of_another_version_stops_and_changes_nothing(session: Session, version: object) -> None:
    data = quick_json.dumps({**store.BLANK, "version": version})
    path = Path(session.folder) / "session.json"
    path.write_bytes(data)

    with pytest.raises(UnreadableSession, match="version") as caught:
        store.read(session)
    assert "nothing was changed" in str(caught.value)
    assert caught.value.hint
    assert path.read_bytes() == data


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"null", b'{"version": 1', b"\xff", b"{}"])
def test_a_torn_record_stops_and_changes_nothing(session: Session, data: bytes) -> None:
    path = Path(session.folder) / "session.json"
    path.write_bytes(data)

    with pytest.raises(UnreadableSession, match=session.id):
        store.read(session)
    assert path.read_bytes() == data


def test_a_session_without_a_record_cannot_be_read(session: Session) -> None:
    with pytest.raises(UnreadableSession):
        store.read(session)


# --- sweeping ---


def test_a_session_that_was_never_born_goes_to_the_trash(place: Store, session: Session) -> None:
    Path(session.folder, "kept").touch()
    store.let_go(session)
    ended.sweep(place)

    assert listed(place) == []
    assert sorted(os.listdir(f"{place.trash}/{session.id}")) == ["kept", "roots"]


def test_a_session_without_a_record_that_somebody_holds_stays(place: Store, session: Session) -> None:
    ended.sweep(place)

    assert listed(place) == [session.id]


def test_a_removal_that_somebody_may_be_at_is_no_reason_to_sweep(place: Store, session: Session) -> None:
    store.write(session, store.BLANK)
    os.makedirs(f"{place.gone}/x")

    assert not ended.has_leavings(place)


def test_an_old_removal_and_a_session_without_a_record_are(
    place: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended.has_leavings(place)
    store.write(session, store.BLANK)
    assert not ended.has_leavings(place)
    os.makedirs(f"{place.gone}/x")
    monkeypatch.setattr(ended, "_YOUNG", -1)
    assert ended.has_leavings(place)


@pytest.mark.parametrize("data", [b"", b'{"version": 99}'])
def test_a_session_with_any_record_stays(place: Store, session: Session, data: bytes) -> None:
    Path(session.folder, "session.json").write_bytes(data)
    store.let_go(session)
    ended.sweep(place)

    assert listed(place) == [session.id]


def test_a_removal_that_was_cut_short_is_finished(place: Store, session: Session) -> None:
    os.makedirs(f"{place.gone}/x/roots/0/work/work")
    os.chmod(f"{place.gone}/x/roots/0/work/work", 0)
    ended.sweep(place)

    assert os.listdir(place.gone) == []


def test_sweeping_where_nothing_is_makes_nothing(place: Store) -> None:
    ended.sweep(place)

    assert not os.path.exists(place.path)


def test_a_stray_file_among_the_sessions_harms_nothing(place: Store, session: Session) -> None:
    Path(place.sessions, "stray").touch()
    store.write(session, store.BLANK)
    ended.sweep(place)

    assert session.id in listed(place)
    assert Path(place.sessions, "stray").exists()


# --- the end ---


def test_a_dropped_session_leaves_nothing(place: Store, session: Session) -> None:
    os.makedirs(f"{session.folder}/roots/0/work/work")
    os.chmod(f"{session.folder}/roots/0/work/work", 0)
    ended.drop(session)

    assert listed(place) == []


def test_a_session_dropped_aside_is_gone_at_once(place: Store, session: Session) -> None:
    left: list[str] = []
    ended.drop_aside(place, session, lambda: left.append("home"))

    assert listed(place) == []
    wait_until(lambda: not os.listdir(place.gone), "its files are gone")


def test_the_trash_holds_a_session_as_it_was(place: Store, session: Session) -> None:
    store.write(session, store.BLANK)
    moved = ended.to_trash(place, session)

    assert moved == f"{place.trash}/{session.id}"
    assert sorted(os.listdir(moved)) == ["roots", "session.json"]
    assert listed(place) == []


def test_the_scaffold_goes_and_the_upper_stays(session: Session, tmp_path: Path) -> None:
    root = store.add_root(session, 0, str(tmp_path))
    store.add_cache(session, 0, "/x")
    Path(root.upper, "made").touch()
    os.mkdir(f"{root.work}/work", 0)
    ended.drop_scaffold(session)

    assert os.listdir(os.path.dirname(root.upper)) == ["upper"]
    assert os.listdir(root.upper) == ["made"]
    assert not os.path.exists(f"{session.folder}/caches")


def test_a_resumed_session_gets_an_empty_work_directory(session: Session, tmp_path: Path) -> None:
    root = store.add_root(session, 0, str(tmp_path))
    os.mkdir(f"{root.work}/work", 0)
    store.renew_work(session, 0)

    assert os.listdir(root.work) == []


def test_a_session_that_ends_while_it_is_looked_at_was_not_killed(place: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create(place)
    running: store.Record = {**store.BLANK, "state": store.RUNNING}
    store.write(session, running)
    assert sessions.state(session, running) == store.RUNNING

    def ended_meanwhile(one: Session) -> bool:
        store.write(session, {**running, "state": store.WAITING})
        store.let_go(session)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(store, "is_held", ended_meanwhile)
        assert sessions.state(session, running) == store.WAITING

    store.write(session, running)
    assert sessions.state(session, running) == store.KILLED
