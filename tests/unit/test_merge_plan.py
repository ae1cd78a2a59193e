"""Changes and a selection become steps in an order in which each finds what it expects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.merge_engine.merge_plan import Folders, MakeFolder, MergePlan, Prune, Put, Remove, SetMode, Step, plan, why_left
from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk, parents_of
from agent_dev.overlay.interpret import interpret
from agent_dev.overlay.selection import Selection, all_of, take
from tests.harness import trees
from tests.harness.trees import DIRECTORY, Tree

FILE, FOLDER, LINK = Entry(FileType.FILE), Entry(FileType.DIRECTORY, 0o755), Entry(FileType.SYMLINK, target=b"x")
NO_FOLDERS = Folders({}, ())


def key(name: str) -> Key:
    return Key(0, name.encode())


def steps_of(*changes: Change, folders: Folders = NO_FOLDERS) -> tuple[Step, ...]:
    every = frozenset(change.key for change in changes)
    return plan(ChangeSet(changes), Selection(every), every, folders).steps


def planned(change: Change, *, selected: bool = False, wanted: bool = False) -> MergePlan:
    keys = frozenset((change.key,))
    nothing: frozenset[Key] = frozenset()
    return plan(ChangeSet((change,)), Selection(keys if selected else nothing), keys if wanted else nothing, NO_FOLDERS)


ONE_STEP = [
    ("an added file", Change(key("a"), Kind.ADDED, None, FILE), Put(key("a"), FILE, None)),
    ("an added empty directory", Change(key("a"), Kind.ADDED, None, FOLDER), Put(key("a"), FOLDER, None)),
    ("an edited file", Change(key("a"), Kind.EDITED, FILE, FILE), Put(key("a"), FILE, FILE)),
    ("a file with another mode", Change(key("a"), Kind.METADATA, FILE, FILE), Put(key("a"), FILE, FILE)),
    ("a retyped path", Change(key("a"), Kind.RETYPED, FILE, LINK), Put(key("a"), LINK, FILE)),
    ("a file that became a directory", Change(key("a"), Kind.RETYPED, FILE, FOLDER), Put(key("a"), FOLDER, FILE)),
    ("a deleted file", Change(key("a"), Kind.DELETED, FILE, None), Remove(key("a"), FILE)),
    ("a deleted empty directory", Change(key("a"), Kind.DELETED, FOLDER, None), Remove(key("a"), FOLDER)),
    ("a directory with another mode", Change(key("a"), Kind.METADATA, FOLDER, FOLDER), SetMode(key("a"), FOLDER, FOLDER)),
]


@pytest.mark.parametrize(("name", "change", "step"), ONE_STEP, ids=[row[0] for row in ONE_STEP])
def test_each_kind_of_change_is_one_step(name: str, change: Change, step: Step) -> None:
    assert steps_of(change) == (step,)


def test_what_is_not_chosen_has_no_step() -> None:
    change = Change(key("a"), Kind.ADDED, None, FILE)

    assert planned(change, wanted=True).steps == ()


@pytest.mark.parametrize("bar", ["conflict", "obstacle"])
def test_what_cannot_be_merged_has_no_step_even_when_chosen(bar: str) -> None:
    change = Change(key("a"), Kind.ADDED, None, FILE, **{bar: "why"})  # type: ignore[arg-type]

    assert planned(change, selected=True, wanted=True).steps == ()


def test_new_directories_are_made_once_and_before_what_is_in_them() -> None:
    folders = Folders({key("n"): Entry(DIRECTORY, 0o755), key("n/m"): Entry(DIRECTORY, 0o700)}, ())
    steps = steps_of(Change(key("n/a"), Kind.ADDED, None, FILE), Change(key("n/m/b"), Kind.ADDED, None, FILE), folders=folders)

    assert steps == (
        MakeFolder(key("n"), 0o755),
        Put(key("n/a"), FILE, None),
        MakeFolder(key("n/m"), 0o700),
        Put(key("n/m/b"), FILE, None),
    )


@pytest.mark.parametrize("bit", [0o4000, 0o2000, 0o1000])
def test_a_new_directory_has_no_special_bit(bit: int) -> None:
    steps = steps_of(Change(key("n/a"), Kind.ADDED, None, FILE), folders=Folders({key("n"): Entry(DIRECTORY, 0o755 | bit)}, ()))

    assert steps[0] == MakeFolder(key("n"), 0o755)


def test_a_directory_that_takes_a_files_place_is_not_made_twice() -> None:
    steps = steps_of(
        Change(key("a"), Kind.RETYPED, FILE, FOLDER),
        Change(key("a/b"), Kind.ADDED, None, FILE, requires=(key("a"),)),
        folders=Folders({}, ()),
    )

    assert steps == (Put(key("a"), FOLDER, FILE), Put(key("a/b"), FILE, None))


def test_removed_directories_go_after_their_contents_the_deepest_first() -> None:
    folders = Folders({}, (key("d"), key("d/e")))
    gone = [Change(key(name), Kind.DELETED, FILE, None) for name in ("d/a", "d/e/b")]
    steps = steps_of(*gone, folders=folders)

    assert steps == (Remove(key("d/e/b"), FILE), Remove(key("d/a"), FILE), Prune(key("d/e")), Prune(key("d")))


def test_modes_come_last() -> None:
    steps = steps_of(Change(key("d"), Kind.METADATA, FOLDER, FOLDER), Change(key("d/a"), Kind.ADDED, None, FILE))

    assert [type(step) for step in steps] == [Put, SetMode]


# --- what is left, and why ---


def test_a_conflict_that_was_wanted_is_told_as_one() -> None:
    told = planned(Change(key("a"), Kind.EDITED, FILE, FILE, conflict="it moved"), wanted=True)

    assert [(one.key, one.why) for one in told.conflicts] == [(key("a"), "it moved")]
    assert told.left == ()


def test_a_conflict_that_nobody_wanted_is_only_left() -> None:
    told = planned(Change(key("a"), Kind.EDITED, FILE, FILE, conflict="it moved"))

    assert (told.conflicts, [one.why for one in told.left]) == ((), ["in conflict: it moved"])


WHYS = [
    ({"obstacle": "a socket", "conflict": "moved"}, True, "a socket"),
    ({"conflict": "moved", "risks": (Risk("G1", "hook"),)}, False, "in conflict: moved"),
    ({"risks": (Risk("G1", "hook"),)}, True, "it needs a change that is left"),
    ({"risks": (Risk("G1", "hook"), Risk("G2", "ci")), "ignored": True}, False, "risky: G1, G2"),
    ({"ignored": True}, False, "ignored by git"),
    ({}, False, "not chosen"),
]


@pytest.mark.parametrize(("more", "was_wanted", "why"), WHYS, ids=[row[2] for row in WHYS])
def test_what_is_left_says_why(*, more: dict[str, object], was_wanted: bool, why: str) -> None:
    assert why_left(Change(key("a"), Kind.ADDED, None, FILE, **more), was_wanted=was_wanted) == why  # type: ignore[arg-type]


# --- random trees: the steps, carried out on values ---


def folders_of(base: Tree, agent: Tree, taken: tuple[Key, ...]) -> Folders:
    """Tell the directories around what is taken: the agent's new ones, and the base's that it removed."""
    around = {folder for one in taken for folder in parents_of(one.path)}
    made = {Key(0, path): Entry(DIRECTORY, agent[path].mode) for path in around if path not in base and path in agent}
    removed = sorted(Key(0, path) for path in around if base.get(path, None) and path not in agent)
    return Folders({one: entry for one, entry in made.items() if agent[one.path].type is DIRECTORY}, tuple(removed))


def carried_out(steps: tuple[Step, ...], tree: Tree, agent: Tree) -> Tree:
    """Carry steps out on a value, each demanding what a disk would."""
    tree = dict(tree)
    for step in steps:
        folder = step.key.path.rpartition(b"/")[0]
        assert not folder or tree[folder].type is DIRECTORY, f"{step}: no directory to stand in"
        _carry_out(step, tree, agent)
    return tree


def _carry_out(step: Step, tree: Tree, agent: Tree) -> None:
    path = step.key.path
    match step:
        case MakeFolder():
            assert tree.setdefault(path, agent[path]).type is DIRECTORY, step
        case Put():
            assert (path in tree) == (step.expect is not None), step
            assert not trees.children(tree, path), step
            tree[path] = agent[path]
        case Remove():
            assert not trees.children(tree, path), step
            del tree[path]
        case Prune() if not trees.children(tree, path):
            del tree[path]
        case Prune():
            pass
        case SetMode():
            tree[path] = agent[path]


def changes_between(base: Tree, agent: Tree, noise: frozenset[bytes]) -> ChangeSet:
    upper = trees.founds(trees.upper_of(base, agent, noise))
    same = frozenset(path for path in base.keys() & agent.keys() if base[path].content == agent[path].content)
    return ChangeSet(interpret(0, upper, trees.entries(base), same))


def some_of(changes: ChangeSet) -> st.SearchStrategy[frozenset[Key]]:
    keys = sorted(one.key for one in changes.changes)
    return st.frozensets(st.sampled_from(keys)) if keys else st.just(frozenset())


@given(trees.pairs())
def test_taking_everything_makes_the_agents_tree(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    changes = changes_between(base, agent, noise)
    selection = all_of(changes)
    made = plan(changes, selection, selection.keys, folders_of(base, agent, tuple(selection.keys)))

    assert carried_out(made.steps, base, agent) == agent


@given(trees.pairs())
def test_taking_nothing_makes_no_step(pair: tuple[Tree, Tree, frozenset[bytes]]) -> None:
    base, agent, noise = pair
    made = plan(changes_between(base, agent, noise), Selection(), frozenset(), NO_FOLDERS)

    assert (made.steps, made.taken, made.conflicts) == ((), (), ())


@given(trees.pairs(), st.data())
def test_any_selection_can_be_carried_out_in_the_order_of_its_steps(
    pair: tuple[Tree, Tree, frozenset[bytes]], data: st.DataObject
) -> None:
    base, agent, noise = pair
    changes = changes_between(base, agent, noise)
    some = data.draw(some_of(changes))
    selection = take(Selection(), some, changes)
    made = plan(changes, selection, some, folders_of(base, agent, tuple(selection.keys)))
    after = carried_out(made.steps, base, agent)
    chosen = {one.path for one in selection.keys}

    assert all(after.get(path) == agent.get(path) for path in chosen)
    assert all(after[path] == base[path] for path in after if path in base and path not in chosen)


@given(trees.pairs(), st.data())
def test_every_change_is_taken_left_or_in_conflict(pair: tuple[Tree, Tree, frozenset[bytes]], data: st.DataObject) -> None:
    base, agent, noise = pair
    changes = changes_between(base, agent, noise)
    some = data.draw(some_of(changes))
    made = plan(changes, take(Selection(), some, changes), some, NO_FOLDERS)
    told = [*made.taken, *(one.key for one in made.left), *(one.key for one in made.conflicts)]

    assert sorted(told) == sorted(one.key for one in changes.changes)
