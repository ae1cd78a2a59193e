"""Changes and a selection become steps in an order in which each finds what it expects."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs.entry import Entry, FileType, Key, parents_of
from agent_dev.merge_engine.merge_plan import (
    ChangedDirectories,
    MakeDirectory,
    MergePlan,
    PruneDirectory,
    PutEntry,
    RemoveEntry,
    SetMode,
    Step,
    make_plan,
    skip_reason,
)
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Risk
from agent_dev.overlay.interpret import interpret
from agent_dev.overlay.selection import Selection, select, select_all
from tests.harness import trees
from tests.harness.trees import DIRECTORY, Tree

FILE, FOLDER, LINK = Entry(FileType.FILE), Entry(FileType.DIRECTORY, 0o755), Entry(FileType.SYMLINK, target=b"x")
NO_FOLDERS = ChangedDirectories({}, ())


def key(name: str) -> Key:
    return Key(0, name.encode())


def steps_of(*changes: Change, folders: ChangedDirectories = NO_FOLDERS) -> tuple[Step, ...]:
    every = frozenset(change.key for change in changes)
    return tuple(make_plan(ChangeSet(changes), Selection(every), every, folders).steps)


def planned(change: Change, *, selected: bool = False, wanted: bool = False) -> MergePlan:
    keys = frozenset((change.key,))
    nothing: frozenset[Key] = frozenset()
    return make_plan(ChangeSet((change,)), Selection(keys if selected else nothing), keys if wanted else nothing, NO_FOLDERS)


ONE_STEP = [
    ("an added file", Change(key("a"), ChangeKind.ADDED, None, FILE), PutEntry(key("a"), FILE, None)),
    ("an added empty directory", Change(key("a"), ChangeKind.ADDED, None, FOLDER), PutEntry(key("a"), FOLDER, None)),
    ("an edited file", Change(key("a"), ChangeKind.EDITED, FILE, FILE), PutEntry(key("a"), FILE, FILE)),
    ("a file with another mode", Change(key("a"), ChangeKind.METADATA, FILE, FILE), PutEntry(key("a"), FILE, FILE)),
    ("a retyped path", Change(key("a"), ChangeKind.RETYPED, FILE, LINK), PutEntry(key("a"), LINK, FILE)),
    ("a file that became a directory", Change(key("a"), ChangeKind.RETYPED, FILE, FOLDER), PutEntry(key("a"), FOLDER, FILE)),
    ("a deleted file", Change(key("a"), ChangeKind.DELETED, FILE, None), RemoveEntry(key("a"), FILE)),
    ("a deleted empty directory", Change(key("a"), ChangeKind.DELETED, FOLDER, None), RemoveEntry(key("a"), FOLDER)),
    ("a directory with another mode", Change(key("a"), ChangeKind.METADATA, FOLDER, FOLDER), SetMode(key("a"), FOLDER, FOLDER)),
]


@pytest.mark.parametrize(("name", "change", "step"), ONE_STEP, ids=[row[0] for row in ONE_STEP])
def test_each_kind_of_change_is_one_step(name: str, change: Change, step: Step) -> None:
    assert steps_of(change) == (step,)


def test_an_unselected_change_has_no_step() -> None:
    change = Change(key("a"), ChangeKind.ADDED, None, FILE)

    assert planned(change, wanted=True).steps == []


@pytest.mark.parametrize("bar", ["conflict", "obstacle"])
def test_an_unmergeable_change_has_no_step_even_if_selected(bar: str) -> None:
    change = Change(key("a"), ChangeKind.ADDED, None, FILE, **{bar: "why"})  # type: ignore[arg-type]

    assert planned(change, selected=True, wanted=True).steps == []


def test_new_directories_are_created_once_and_before_their_contents() -> None:
    folders = ChangedDirectories({key("n"): Entry(DIRECTORY, 0o755), key("n/m"): Entry(DIRECTORY, 0o700)}, ())
    steps = steps_of(
        Change(key("n/a"), ChangeKind.ADDED, None, FILE), Change(key("n/m/b"), ChangeKind.ADDED, None, FILE), folders=folders
    )

    assert steps == (
        MakeDirectory(key("n"), 0o755),
        PutEntry(key("n/a"), FILE, None),
        MakeDirectory(key("n/m"), 0o700),
        PutEntry(key("n/m/b"), FILE, None),
    )


@pytest.mark.parametrize("bit", [0o4000, 0o2000, 0o1000])
def test_a_new_directory_has_no_special_bits(bit: int) -> None:
    steps = steps_of(
        Change(key("n/a"), ChangeKind.ADDED, None, FILE),
        folders=ChangedDirectories({key("n"): Entry(DIRECTORY, 0o755 | bit)}, ()),
    )

    assert steps[0] == MakeDirectory(key("n"), 0o755)


def test_a_directory_that_replaces_a_file_is_not_created_twice() -> None:
    steps = steps_of(
        Change(key("a"), ChangeKind.RETYPED, FILE, FOLDER),
        Change(key("a/b"), ChangeKind.ADDED, None, FILE, requires=(key("a"),)),
        folders=ChangedDirectories({}, ()),
    )

    assert steps == (PutEntry(key("a"), FOLDER, FILE), PutEntry(key("a/b"), FILE, None))


def test_removed_directories_follow_their_contents_deepest_first() -> None:
    folders = ChangedDirectories({}, (key("d"), key("d/e")))
    gone = [Change(key(name), ChangeKind.DELETED, FILE, None) for name in ("d/a", "d/e/b")]
    steps = steps_of(*gone, folders=folders)

    assert steps == (
        RemoveEntry(key("d/e/b"), FILE),
        RemoveEntry(key("d/a"), FILE),
        PruneDirectory(key("d/e")),
        PruneDirectory(key("d")),
    )


def test_modes_are_set_last() -> None:
    steps = steps_of(Change(key("d"), ChangeKind.METADATA, FOLDER, FOLDER), Change(key("d/a"), ChangeKind.ADDED, None, FILE))

    assert [type(step) for step in steps] == [PutEntry, SetMode]


# --- unselected changes and their reasons ---


def test_a_selected_conflict_is_reported_as_a_conflict() -> None:
    reported = planned(Change(key("a"), ChangeKind.EDITED, FILE, FILE, conflict="it moved"), wanted=True)

    assert [(one.key, one.reason) for one in reported.conflicts] == [(key("a"), "it moved")]
    assert reported.skipped == ()


def test_an_unselected_conflict_is_only_left() -> None:
    reported = planned(Change(key("a"), ChangeKind.EDITED, FILE, FILE, conflict="it moved"))

    assert (reported.conflicts, [one.reason for one in reported.skipped]) == ((), ["in conflict: it moved"])


WHYS = [
    ({"obstacle": "a socket", "conflict": "moved"}, True, "a socket"),
    ({"conflict": "moved", "risks": (Risk("G1", "hook"),)}, False, "in conflict: moved"),
    ({"risks": (Risk("G1", "hook"),)}, True, "it requires a change that was not selected"),
    ({"risks": (Risk("G1", "hook"), Risk("G2", "ci"))}, False, "risky: G1, G2"),
    ({"risks": (Risk("G1", "hook"),), "is_ignored": True}, False, "ignored by git"),
    ({"is_ignored": True}, False, "ignored by git"),
    ({}, False, "not selected"),
]


@pytest.mark.parametrize(("more", "is_requested", "why"), WHYS, ids=[f"{number} {row[2]}" for number, row in enumerate(WHYS)])
def test_every_unselected_change_has_a_reason(*, more: dict[str, object], is_requested: bool, why: str) -> None:
    assert skip_reason(Change(key("a"), ChangeKind.ADDED, None, FILE, **more), is_requested=is_requested) == why  # type: ignore[arg-type]


# --- random trees: steps applied in memory ---


def folders_of(base: Tree, agent: Tree, taken: tuple[Key, ...]) -> ChangedDirectories:
    """Return the directories around the applied changes: the agent's new ones, and those of the base that it removed."""
    around = {folder for one in taken for folder in parents_of(one.path)}
    made = {Key(0, path): Entry(DIRECTORY, agent[path].mode) for path in around if path not in base and path in agent}
    removed = sorted(Key(0, path) for path in around if base.get(path, None) and path not in agent)
    return ChangedDirectories({one: entry for one, entry in made.items() if agent[one.path].type is DIRECTORY}, tuple(removed))


def carried_out(steps: Sequence[Step], tree: Tree, agent: Tree) -> Tree:
    """Apply steps to a tree in memory; check what a disk would require."""
    tree = dict(tree)
    for step in steps:
        folder = step.key.path.rpartition(b"/")[0]
        assert not folder or tree[folder].type is DIRECTORY, f"{step}: no directory to stand in"
        _carry_out(step, tree, agent)
    return tree


def _carry_out(step: Step, tree: Tree, agent: Tree) -> None:
    path = step.key.path
    match step:
        case MakeDirectory():
            assert tree.setdefault(path, agent[path]).type is DIRECTORY, step
        case PutEntry():
            assert (path in tree) == (step.expected is not None), step
            assert not trees.children(tree, path), step
            tree[path] = agent[path]
        case RemoveEntry():
            assert not trees.children(tree, path), step
            del tree[path]
        case PruneDirectory() if not trees.children(tree, path):
            del tree[path]
        case PruneDirectory():
            pass
        case SetMode():
            tree[path] = agent[path]


def changes_between(base: Tree, agent: Tree, noise: frozenset[bytes]) -> ChangeSet:
    upper = trees.walked_entries(trees.upper_of(base, agent, noise))
    same = frozenset(path for path in base.keys() & agent.keys() if base[path].content == agent[path].content)
    return ChangeSet(interpret(0, upper, trees.entries(base), same))


def some_of(changes: ChangeSet) -> st.SearchStrategy[frozenset[Key]]:
    keys = sorted(one.key for one in changes.changes)
    return st.frozensets(st.sampled_from(keys)) if keys else st.just(frozenset())


@given(trees.pairs())
def test_selecting_everything_yields_the_agents_tree(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    changes = changes_between(base, agent, noise)
    selection = select_all(changes)
    made = make_plan(changes, selection, selection.keys, folders_of(base, agent, tuple(selection.keys)))

    assert carried_out(made.steps, base, agent) == agent


@given(trees.pairs())
def test_selecting_nothing_gives_no_step(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    made = make_plan(changes_between(base, agent, noise), Selection(), frozenset(), NO_FOLDERS)

    assert (made.steps, made.selected, made.conflicts) == ([], (), ())


@given(trees.pairs(), st.data())
def test_any_selection_is_valid_in_the_order_of_its_steps(pair: tuple[Tree, Tree, frozenset[bytes]], data: st.DataObject) -> None:
    base, agent, noise = pair
    changes = changes_between(base, agent, noise)
    some = data.draw(some_of(changes))
    selection = select(Selection(), some, changes)
    made = make_plan(changes, selection, some, folders_of(base, agent, tuple(selection.keys)))
    after = carried_out(made.steps, base, agent)
    picked = {one.path for one in selection.keys}

    assert all(after.get(path) == agent.get(path) for path in picked)
    assert all(after[path] == base[path] for path in after if path in base and path not in picked)


@given(trees.pairs(), st.data())
def test_every_change_is_applied_left_or_in_conflict(pair: tuple[Tree, Tree, frozenset[bytes]], data: st.DataObject) -> None:
    base, agent, noise = pair
    changes = changes_between(base, agent, noise)
    some = data.draw(some_of(changes))
    made = make_plan(changes, select(Selection(), some, changes), some, NO_FOLDERS)
    reported = [*made.selected, *(one.key for one in made.skipped), *(one.key for one in made.conflicts)]

    assert sorted(reported) == sorted(one.key for one in changes.changes)
