"""`agent-dev clean` and the automatic cleaning: what is removed, what stays, and a kill at any moment."""

import fcntl
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent_dev.checkpoint import checkpoint_store
from agent_dev.config.profile import Profile
from agent_dev.fs import background_removal, rmtree
from agent_dev.git import object_links
from agent_dev.merge import session_access
from agent_dev.retention import automatic, caches, checkpoints, clean, merges
from agent_dev.sandbox import masks
from agent_dev.sandbox.plan import MaskEntry
from agent_dev.session import discarded, removal, store
from agent_dev.session.sessions import CommandContext, list_sessions
from tests.harness import trees
from tests.harness.ended_session import ENVIRON, EndedSession
from tests.harness.trees import FILE, Node, UpperEntry


def context(one: EndedSession, **settings: int) -> CommandContext:
    return CommandContext(one.store, str(one.real), str(one.real), ENVIRON, Profile(name="default", **settings))  # type: ignore[arg-type]


@pytest.fixture
def ended(tmp_path: Path) -> EndedSession:
    """Return an ended session that adds `a` and `b`, unlocked."""
    one = EndedSession(tmp_path, {}, [UpperEntry(name, Node(FILE, name)) for name in (b"a", b"b")])
    store.unlock_session(one.session)
    return one


def discard(one: EndedSession) -> None:
    (listed,) = list_sessions(one.store)
    session_access.discard(context(one), listed)


def test_a_killed_cleaning_of_the_trash_leaves_no_part_of_a_session(ended: EndedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    discard(ended)

    def kill(folder: str) -> None:
        os.unlink(f"{folder}/roots/0/upper/a")
        raise KeyboardInterrupt

    monkeypatch.setattr(clean, "remove_session", kill)
    with pytest.raises(KeyboardInterrupt):
        clean.clean_trash(context(ended), 0, 0, is_dry=False)
    assert discarded.list_discarded(ended.store) == ()
    removal.sweep_leftovers(ended.store)
    assert os.listdir(ended.store.removals_folder) == []


def test_a_session_that_is_being_restored_stays_in_the_trash(ended: EndedSession) -> None:
    discard(ended)
    (one,) = discarded.list_discarded(ended.store)
    held = store.lock_session(one.session)
    assert clean.clean_trash(context(ended), 0, 0, is_dry=False).removed == ()
    store.unlock_session(held)
    assert len(clean.clean_trash(context(ended), 0, 0, is_dry=False).removed) == 1


# --- caches ---


def cached(tmp_path: Path, name: str, age: float, size: int = 10) -> Path:
    """Create a cache that was last used `age` days ago."""
    path = tmp_path / "agent-dev" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    used = time.time() - age * 86_400
    os.utime(path, (used, used))
    return path


def clean_caches(one: EndedSession, tmp_path: Path, *, is_dry: bool = False, **settings: int) -> list[str]:
    """Clean the caches of `tmp_path`; return what remains."""
    where = replace(context(one, **settings), environ={**ENVIRON, "XDG_CACHE_HOME": str(tmp_path)})
    before = sum(path.is_file() for path in (tmp_path / "agent-dev").rglob("*"))
    found = caches.clean_caches(where, is_dry=is_dry)
    left = sorted(path.name for path in (tmp_path / "agent-dev").rglob("*") if path.is_file())
    assert found.removed == (before - len(left) if not is_dry else before - found.kept)
    return left


def test_caches_are_removed_by_age_and_by_size(ended: EndedSession, tmp_path: Path) -> None:
    cached(tmp_path, "refs/a", 40)
    cached(tmp_path, "risks.json.4711", 31)  # of a killed process
    cached(tmp_path, "large", 20, 1 << 20)
    cached(tmp_path, "small", 10)
    everything = ["a", "large", "risks.json.4711", "small"]
    assert clean_caches(ended, tmp_path, keep_caches_days=9, is_dry=True) == everything
    assert clean_caches(ended, tmp_path) == ["large", "small"]
    assert clean_caches(ended, tmp_path, keep_caches_mib=1) == ["small"]
    assert clean_caches(ended, tmp_path, keep_caches_mib=0) == []


def test_caches_that_a_running_sandbox_may_use_are_kept(ended: EndedSession, tmp_path: Path) -> None:
    started = time.time_ns() - 60 * 86_400 * 10**9
    record = {**store.read_record(ended.session), "state": store.RUNNING, "launcher": os.getpid(), "started": started}
    store.write_record(ended.session, record)  # type: ignore[arg-type]
    cached(tmp_path, "before", 62)
    cached(tmp_path, "at-its-start", 60)
    held = store.lock_session(ended.session)
    assert clean_caches(ended, tmp_path, keep_caches_mib=0) == ["at-its-start"]
    store.unlock_session(held)


def test_caches_that_a_run_in_direct_mode_may_use_are_kept(ended: EndedSession, tmp_path: Path) -> None:
    lock = Path(ended.store.path) / "snapshots/one/lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (time.time() - 60 * 86_400,) * 2)
    cached(tmp_path, "at-its-start", 60)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert clean_caches(ended, tmp_path, keep_caches_mib=0) == ["at-its-start"]
    assert clean_caches(ended, tmp_path, keep_caches_mib=0) == []


def test_layers_that_mask_credentials_are_removed_when_unused(ended: EndedSession, tmp_path: Path) -> None:
    layers = Path(ended.store.path) / "covers"
    used, unused = (str(layers / name) for name in ("used", "unused"))
    for path in (used, unused):
        masks.create_mask_layer(path, (MaskEntry("a/secret", b""),))
        os.utime(path, (0, 0))
    (layers / "blank").mkdir()
    os.utime(layers / "blank", (0, 0))
    masks.create_mask_layer(used, (MaskEntry("a/secret", b""),))
    (tmp_path / "agent-dev").mkdir()
    where = replace(context(ended), environ={**ENVIRON, "XDG_CACHE_HOME": str(tmp_path)})
    assert caches.clean_caches(where, is_dry=False).removed == 1
    assert {path.name for path in layers.iterdir()} == {"blank", "used"}


# --- merges and their sessions ---


def test_a_large_log_counts_with_the_merge_of_its_session(tmp_path: Path) -> None:
    one = EndedSession(tmp_path, {}, [UpperEntry(b"a", Node(FILE, b"a"))])
    one.merge_all()
    another = EndedSession.another(one)
    Path(f"{another.upper}/b").write_bytes(b"b")
    another.merge_all()
    where = context(one, keep_merges_mib=1)
    assert merges.find_expired(where).expired == ()
    Path(f"{one.session.folder}/commands.jsonl").write_bytes(b"x" * (2 << 20))
    expired = merges.find_expired(where).expired
    assert [merge.id.rpartition(".")[0] for merge in expired] == [one.session.id]
    dry = clean.clean_all(where, 30, 100, print, is_all=False, is_dry=True)
    assert [(kind.kind, kind.removed) for kind in dry.kinds if kind.removed] == [("merges", 1), ("merged sessions", 1)]
    for session in (one, another):
        store.unlock_session(session.session)


def test_a_merge_that_was_just_undone_is_not_removed(tmp_path: Path) -> None:
    with EndedSession(tmp_path, {}, [UpperEntry(name, Node(FILE, name)) for name in (b"a", b"b")]) as one:
        first = one.merge(b"a").id
        one.merge(b"b")
        where = context(one, keep_merges_days=0)
        expired = merges.find_expired(where).expired
        assert [merge.id for merge in expired] == [first]
        one.undo(first)
        assert merges.remove_merges(where, expired, print) == ()
        one.redo(first)


# --- checkpoints ---


@pytest.mark.parametrize(("state", "left"), [(store.MERGED, [3, 4, 5]), (store.WAITING, [1, 2, 3, 4, 5])])
def test_old_checkpoints_of_merged_sessions_alone_are_pruned(ended: EndedSession, state: str, left: list[int]) -> None:
    for number in range(5):
        Path(f"{ended.upper}/moves").write_text(f"{number}")
        checkpoint_store.take_checkpoint(ended.session, store.read_record(ended.session), checkpoint_store.MANUAL)
    store.write_record(ended.session, {**store.read_record(ended.session), "state": state})
    where = context(ended, keep_checkpoints=3)
    assert checkpoints.prune_merged(where, is_dry=True).kept == len(left)
    assert [one.number for one in checkpoint_store.list_checkpoints(ended.session)] == [1, 2, 3, 4, 5]
    held = store.lock_session(ended.session)
    assert checkpoints.prune_merged(where, is_dry=False).removed == 0
    store.unlock_session(held)
    found = checkpoints.prune_merged(where, is_dry=False)
    assert (found.removed, found.kept) == (5 - len(left), len(left))
    assert [one.number for one in checkpoint_store.list_checkpoints(ended.session)] == left


@pytest.mark.parametrize("is_dry", [True, False])
def test_checkpoints_of_a_reduced_session_count_as_removed(ended: EndedSession, *, is_dry: bool) -> None:
    checkpoint_store.take_checkpoint(ended.session, store.read_record(ended.session), checkpoint_store.MANUAL)
    ended.merge_all()
    cleaned = clean.clean_all(context(ended), 30, 100, print, is_all=True, is_dry=is_dry)
    assert [(kind.removed, kind.kept) for kind in cleaned.kinds if kind.kind == "checkpoints"] == [(1, 0)]
    assert len(checkpoint_store.list_checkpoints(ended.session)) == is_dry


# --- the automatic cleaning ---


def test_the_automatic_cleaning_starts_once_a_day(ended: EndedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    monkeypatch.setattr(background_removal, "run_in_background", lambda _: starts.append(1))
    automatic.clean_if_due(context(ended))
    automatic.clean_if_due(context(ended))
    assert len(starts) == 1
    os.utime(f"{ended.store.path}/thinned", (0, 0))
    automatic.clean_if_due(context(ended))
    assert len(starts) == 2


def test_a_mark_that_cannot_be_written_prevents_no_cleaning(ended: EndedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    monkeypatch.setattr(background_removal, "run_in_background", lambda _: starts.append(1))
    os.mkdir(f"{ended.store.path}/thinned")
    os.utime(f"{ended.store.path}/thinned", (0, 0))
    automatic.clean_if_due(context(ended))
    assert len(starts) == 1


def test_the_automatic_cleaning_cleans_all_kinds_and_nothing_that_waits(tmp_path: Path) -> None:
    one = EndedSession(tmp_path, {}, [UpperEntry(name, Node(FILE, name)) for name in (b"a", b"b")])
    one.merge(b"a")
    waiting = EndedSession.another(one)
    Path(f"{waiting.upper}/c").write_bytes(b"c")
    store.unlock_session(one.session)
    store.unlock_session(waiting.session)
    before = trees.read(Path(one.store.sessions))
    cached(tmp_path, "old", 40)
    where = replace(context(one, keep_merges_days=0, keep_merges_mib=0), environ={**ENVIRON, "XDG_CACHE_HOME": str(tmp_path)})
    clean.clean_automatically(where)
    assert not list((tmp_path / "agent-dev").iterdir())
    assert trees.read(Path(one.store.sessions)) == before
    assert len(list_sessions(one.store)) == 2


def test_the_last_session_takes_the_directory_of_its_objects_along(tmp_path: Path) -> None:
    store_folder = tmp_path / "repo/.git/agent-dev"
    for name in ("one", "two"):
        (store_folder / name).mkdir(parents=True)
        (tmp_path / name).mkdir()
        object_links.append_to_list(str(tmp_path / name / "objects.elsewhere"), str(store_folder / name))
    rmtree.remove_session(str(tmp_path / "one"), is_last=True)
    assert [path.name for path in store_folder.iterdir()] == ["two"]
    rmtree.remove_session(str(tmp_path / "two"), is_last=True)
    assert not store_folder.exists()
    assert (tmp_path / "repo/.git").is_dir()
