"""Laws of merging on real files, over random trees: nothing, everything, some and then the rest."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_dev.commands import pick
from agent_dev.commands.pick import Wish
from agent_dev.commands.review import Review
from agent_dev.core.changes import Change, ChangeSet, Key, Kind, Risk
from agent_dev.core.merge import Folders, plan
from agent_dev.host import kernel
from agent_dev.host.base import Base
from agent_dev.host.store import BLANK, Session
from tests.harness import trees
from tests.harness.ended import Ended
from tests.harness.trees import DIRECTORY, FILE, SYMLINK, Mark, Node, Tree
from tests.harness.users import as_ordinary, open_place, with_own_mounts

OLD, NEW, MINE = Node(FILE, b"old"), Node(FILE, b"new"), Node(FILE, b"mine")
FOLDER = Node(DIRECTORY, b"", 0o755)
Pair = tuple[Tree, Tree, frozenset[bytes]]
ON_DISK = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def ended(pair: Pair) -> Iterator[Ended]:
    base, agent, noise = pair
    with tempfile.TemporaryDirectory() as folder, Ended(Path(folder), base, trees.upper_of(base, agent, noise)) as session:
        yield session


def some_of(paths: list[bytes]) -> st.SearchStrategy[frozenset[bytes]]:
    return st.frozensets(st.sampled_from(paths)) if paths else st.just(frozenset())


@ON_DISK
@given(trees.pairs())
def test_a_session_tells_exactly_what_differs(pair: Pair) -> None:
    base, agent, _ = pair
    with ended(pair) as session:
        assert session.kinds() == trees.differences(base, agent)
        assert session.conflicts() == {}


@ON_DISK
@given(trees.pairs())
def test_looking_changes_nothing(pair: Pair) -> None:
    base = pair[0]
    with ended(pair) as session:
        session.changes()

        assert trees.read(session.real) == base


@ON_DISK
@given(trees.pairs())
def test_merging_nothing_changes_nothing(pair: Pair) -> None:
    with ended(pair) as session:
        before = session.kinds()
        merged = session.merge()

        assert (merged.id, merged.taken) == ("", ())
        assert trees.read(session.real) == pair[0]
        assert session.kinds() == before


@ON_DISK
@given(trees.pairs())
def test_merging_everything_makes_the_agents_tree_and_leaves_nothing(pair: Pair) -> None:
    with ended(pair) as session:
        merged = session.merge_all()

        assert trees.read(session.real) == pair[1]
        assert merged.is_all == bool(merged.taken)
        assert (session.kinds(), session.conflicts()) == ({}, {})


@ON_DISK
@given(trees.pairs(), st.data())
def test_what_was_not_selected_does_not_change(pair: Pair, data: st.DataObject) -> None:
    base, agent, _ = pair
    with ended(pair) as session:
        some = data.draw(some_of(sorted(session.kinds())))
        taken = {change.key.path for change in session.merge(*some).taken}
        after = trees.read(session.real)

        assert {path: after.get(path) for path in taken} == {path: agent.get(path) for path in taken}
        assert {path: node for path, node in after.items() if path in base and path not in taken and node != base[path]} == {}


@ON_DISK
@given(trees.pairs(), st.data())
def test_what_was_left_is_still_in_the_session_and_nothing_else(pair: Pair, data: st.DataObject) -> None:
    with ended(pair) as session:
        before = session.kinds()
        some = data.draw(some_of(sorted(before)))
        taken = {change.key.path for change in session.merge(*some).taken}

        assert session.kinds() == {path: kind for path, kind in before.items() if path not in taken}
        assert session.conflicts() == {}


@ON_DISK
@given(trees.pairs(), st.data())
def test_some_and_then_the_rest_make_the_agents_tree(pair: Pair, data: st.DataObject) -> None:
    with ended(pair) as session:
        session.merge(*data.draw(some_of(sorted(session.kinds()))))
        session.merge_all()

        assert trees.read(session.real) == pair[1]
        assert (session.kinds(), session.conflicts()) == ({}, {})


@ON_DISK
@given(trees.pairs())
def test_a_merge_leaves_nothing_of_ours_beside_it(pair: Pair) -> None:
    with ended(pair) as session:
        merged = session.merge_all()
        kept = {path.name for path in Path(session.store.merges).rglob("*")}
        names = {path.name for path in Path(session.store.merges).iterdir()}

        assert names == ({merged.id} if merged.id else set())
        assert "probe" not in kept
        assert not list(Path(session.store.pending).glob("*"))


PARTS: dict[str, tuple[Tree, list[Mark], bytes, dict[bytes, Kind]]] = {
    "of a removed directory": (
        {b"d": FOLDER, b"d/a": OLD, b"d/b": OLD},
        [Mark(b"d", None)],
        b"d/a",
        {b"d/b": Kind.DELETED},
    ),
    "of a directory that was made anew": (
        {b"d": FOLDER, b"d/a": OLD, b"d/e": FOLDER, b"d/e/b": OLD, b"d/e/c": OLD},
        [Mark(b"d", FOLDER, opaque=True), Mark(b"d/new", NEW)],
        b"d/e/b",
        {b"d/a": Kind.DELETED, b"d/e/c": Kind.DELETED, b"d/new": Kind.ADDED},
    ),
    "of a file that became a directory": (
        {b"x": OLD},
        [Mark(b"x", FOLDER, opaque=True), Mark(b"x/y", NEW), Mark(b"x/z", NEW)],
        b"x/y",
        {b"x/z": Kind.ADDED},
    ),
    "of a new directory": ({}, [Mark(b"n", FOLDER), Mark(b"n/y", NEW), Mark(b"n/z", NEW)], b"n/y", {b"n/z": Kind.ADDED}),
    "an empty directory of a removed one": (
        {b"d": FOLDER, b"d/empty": FOLDER, b"d/b": OLD},
        [Mark(b"d", None)],
        b"d/empty",
        {b"d/b": Kind.DELETED},
    ),
    "all of a directory in a removed one": (
        {b"d": FOLDER, b"d/e": FOLDER, b"d/e/a": OLD, b"d/b": OLD},
        [Mark(b"d", None)],
        b"d/e/a",
        {b"d/b": Kind.DELETED},
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_of_a_part_that_was_merged_nothing_is_told_any_more(tmp_path: Path, part: str) -> None:
    base, marks, taken, left = PARTS[part]
    with Ended(tmp_path, base, marks) as session:
        session.merge(taken)

        assert (session.kinds(), session.conflicts()) == (left, {})


# --- the user goes on working ---


def rewrite(path: Path) -> None:
    path.write_bytes(MINE.content)


def swap_for_equal_bytes(path: Path) -> None:
    path.with_name("saving").write_bytes(path.read_bytes())
    path.with_name("saving").rename(path)


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def remove(path: Path) -> None:
    path.unlink()


def make_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


DEEDS = [rewrite, swap_for_equal_bytes, touch, remove, make_a_link]
MARKS = {
    "an edit": [Mark(b"x", NEW), Mark(b"y", NEW)],
    "a deletion": [Mark(b"x", None), Mark(b"y", NEW)],
    "a retyping": [Mark(b"x", FOLDER, opaque=True), Mark(b"x/z", NEW), Mark(b"y", NEW)],
    "a mode": [Mark(b"x", Node(FILE, b"old", 0o755)), Mark(b"y", NEW)],
}


AGENTS: dict[str, Tree] = {
    "an edit": {b"x": NEW},
    "a deletion": {},
    "a mode": {b"x": Node(FILE, b"old", 0o755)},
}
# What the user did and what the agent did fit together: then this lands.
FITTING: dict[tuple[str, Callable[[Path], None]], Tree] = {
    **{(what, deed): tree for what, tree in AGENTS.items() for deed in (swap_for_equal_bytes, touch)},
    ("a deletion", remove): {},
    ("a mode", rewrite): {b"x": Node(FILE, MINE.content, 0o755)},
}
PAIRS = [(what, deed) for what in MARKS for deed in DEEDS]


@pytest.mark.parametrize(("what", "deed"), [pair for pair in PAIRS if pair in FITTING])
def test_what_fits_what_the_user_did_meanwhile_is_merged_with_it(tmp_path: Path, what: str, deed: Callable[[Path], None]) -> None:
    with Ended(tmp_path, {b"x": OLD, b"y": OLD}, MARKS[what]) as session:
        deed(session.real / "x")
        merged = session.merge_all()

        assert trees.read(session.real) == {b"y": NEW, **FITTING[what, deed]}
        assert (merged.is_all, session.kinds(), session.conflicts()) == (True, {}, {})


@pytest.mark.parametrize(("what", "deed"), [pair for pair in PAIRS if pair not in FITTING])
def test_what_the_user_did_meanwhile_is_a_conflict_and_stays(tmp_path: Path, what: str, deed: Callable[[Path], None]) -> None:
    with Ended(tmp_path, {b"x": OLD, b"y": OLD}, MARKS[what]) as session:
        deed(session.real / "x")
        mine = trees.read(session.real).get(b"x")
        session.merge_all()

        assert trees.read(session.real) == {b"y": NEW} | ({b"x": mine} if mine else {})
        assert b"x" in session.conflicts()


def test_something_new_of_the_users_is_a_conflict_and_stays(tmp_path: Path) -> None:
    with Ended(tmp_path, {}, [Mark(b"x", NEW)]) as session:
        trees.write(session.real, {b"x": MINE})
        session.merge_all()

        assert trees.read(session.real) == {b"x": MINE}
        assert session.conflicts() == {b"x": "both added it, with different contents"}


def test_something_new_of_the_users_in_a_removed_directory_stays_with_it(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"d": FOLDER, b"d/x": OLD}, [Mark(b"d", None)]) as session:
        trees.write(session.real, {b"d/mine": MINE})
        session.merge_all()

        assert trees.read(session.real) == {b"d": FOLDER, b"d/mine": MINE}


def test_a_directory_of_the_users_that_became_a_link_is_a_conflict(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"d": FOLDER, b"d/x": OLD}, [Mark(b"d", FOLDER), Mark(b"d/x", NEW), Mark(b"d/new", NEW)]) as session:
        (session.real / "d").rename(tmp_path / "outside")
        (session.real / "d").symlink_to("../outside")
        session.merge_all()

        assert trees.read(tmp_path / "outside") == {b"x": OLD}
        assert set(session.conflicts()) == {b"d/x", b"d/new"}


def test_a_directory_over_which_something_was_mounted_is_a_conflict(tmp_path: Path) -> None:
    def act() -> None:
        (tmp_path / "outside").mkdir()
        kernel.mount(str(tmp_path / "outside"), str(session.real / "d"), None, 0x1000)
        session.merge_all()

        assert os.listdir(tmp_path / "outside") == []
        assert set(session.conflicts()) == {b"d/x"}

    with Ended(tmp_path, {b"d": FOLDER, b"d/x": OLD}, [Mark(b"d", FOLDER), Mark(b"d/x", NEW), Mark(b"y", NEW)]) as session:
        with_own_mounts(act)


def test_a_conflict_stays_in_the_session_with_its_content(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"x": OLD, b"y": OLD}, MARKS["an edit"]) as session:
        rewrite(session.real / "x")
        merged = session.merge_all()

        assert not merged.is_all
        assert (session.upper / "x").read_bytes() == NEW.content


def test_a_path_that_was_merged_and_then_edited_by_the_user_is_nothing_of_the_sessions(tmp_path: Path) -> None:
    with Ended(tmp_path, {b"x": OLD, b"y": OLD}, MARKS["an edit"]) as session:
        session.merge(b"x")
        rewrite(session.real / "x")

        assert (session.kinds(), session.conflicts()) == ({b"y": Kind.EDITED}, {})


def test_a_link_that_points_out_is_merged_as_a_link(tmp_path: Path) -> None:
    with Ended(tmp_path, {}, [Mark(b"l", Node(SYMLINK, b"/etc/passwd"))]) as session:
        session.merge_all()

        assert os.readlink(session.real / "l") == "/etc/passwd"


# --- what an ordinary user may not enter or write to ---


@pytest.mark.parametrize("mode", [0o555, 0o500])
def test_a_directory_that_nobody_may_write_to_is_merged_with_its_contents(mode: int) -> None:
    def act() -> None:
        with Ended(folder, {}, [Mark(b"d", FOLDER), Mark(b"d/e", FOLDER), Mark(b"d/e/x", NEW), Mark(b"y", NEW)]) as session:
            for name in ("d/e", "d"):
                (session.upper / name).chmod(mode)
            merged = session.merge_all()
            shut = Node(DIRECTORY, b"", mode)

            assert merged.is_all
            assert trees.read(session.real) == {b"d": shut, b"d/e": shut, b"d/e/x": NEW, b"y": NEW}
            assert os.listdir(session.upper) == []

    with open_place() as folder:
        as_ordinary(act)


def test_a_file_that_nobody_may_read_is_merged() -> None:
    def act() -> None:
        with Ended(folder, {b"x": OLD}, [Mark(b"x", Node(FILE, b"secret", 0)), Mark(b"y", Node(FILE, b"new", 0o200))]) as session:
            assert session.merge_all().is_all
            modes = [(session.real / name).stat().st_mode & 0o7777 for name in ("x", "y")]
            (session.real / "x").chmod(0o600)

            assert (modes, (session.real / "x").read_bytes()) == ([0, 0o200], b"secret")

    with open_place() as folder:
        as_ordinary(act)


def test_what_could_not_be_read_is_told_and_stays_in_the_session() -> None:
    def act() -> None:
        with Ended(folder, {}, [Mark(b"d", FOLDER), Mark(b"d/x", NEW), Mark(b"y", NEW)]) as session:
            (session.upper / "d").chmod(0)
            assert [problem.partition(":")[0] for problem in session.changes().problems] == ["d"]
            merged = session.merge_all()

            assert not merged.is_all
            assert os.listdir(session.upper) == ["d"]

    with open_place() as folder:
        as_ordinary(act)


# --- what flags choose ---


def change(name: bytes, **more: object) -> Change:
    return Change(Key(0, name), Kind.ADDED, None, trees.entry(NEW), **more)  # type: ignore[arg-type]


def opened(changes: ChangeSet) -> Review:
    """Return a review of which only the changes are asked."""
    return Review(Session("", ""), BLANK, changes, (), (), Base("/nonexistent"), {})


RISKS = (Risk("hook", "runs later"),)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (change(b"x", risks=RISKS), "risky: hook"),
        (change(b"x", ignored=True), "ignored by git"),
        (change(b"x", obstacle="a socket"), "a socket"),
    ],
)
def test_what_all_leaves_says_why(one: Change, why: str) -> None:
    changes = ChangeSet((one,))
    chosen, asked = pick.choose(opened(changes), Wish(is_everything=True))

    assert [left.why for left in plan(changes, chosen, asked, Folders({}, ())).left] == [why]


def test_take_chooses_all_below_a_path_and_what_it_needs() -> None:
    needed = change(b"a")
    changes = ChangeSet((needed, change(b"d/x", requires=(needed.key,)), change(b"d/y", risks=RISKS), change(b"dd")))
    chosen, asked = pick.choose(opened(changes), Wish(paths=(Key(0, b"d"),)))

    assert {key.path for key in chosen.keys} == {b"a", b"d/x", b"d/y"}
    assert {key.path for key in asked} == {b"d/x", b"d/y"}


def test_a_conflict_that_take_asked_for_is_told() -> None:
    changes = ChangeSet((change(b"x", conflict="it moved"), change(b"y")))
    chosen, asked = pick.choose(opened(changes), Wish(paths=(Key(0, b""),)))

    assert [left.key.path for left in plan(changes, chosen, asked, Folders({}, ())).conflicts] == [b"x"]
