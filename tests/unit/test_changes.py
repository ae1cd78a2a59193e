"""What must be taken together, and what lies below a path."""

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.overlay.changes import Change, ChangeSet, Entry, FileType, Key, Kind, closure, dependents

FILE = Entry(FileType.FILE)


def key(name: str, root: int = 0) -> Key:
    return Key(root, name.encode())


def change(name: str, *needs: str, root: int = 0) -> Change:
    return Change(key(name, root), Kind.ADDED, None, FILE, requires=tuple(key(need, root) for need in needs))


@st.composite
def change_sets(draw: st.DrawFn) -> ChangeSet:
    """Draw changes that need any of one another, in circles too, and some that are not there."""
    names = "abcdef"
    needs = st.lists(st.sampled_from([*names, "gone"]), max_size=3)
    return ChangeSet(tuple(change(name, *draw(needs)) for name in names))


KEYS = st.frozensets(st.sampled_from([key(name) for name in "abcdef"]))


def test_closure_brings_what_is_needed_through_others() -> None:
    changes = ChangeSet((change("a", "b"), change("b", "c"), change("c"), change("d")))

    assert closure(frozenset((key("a"),)), changes) == {key("a"), key("b"), key("c")}


def test_dependents_brings_what_needs_it_through_others() -> None:
    changes = ChangeSet((change("a", "b"), change("b", "c"), change("c"), change("d")))

    assert dependents(frozenset((key("c"),)), changes) == {key("a"), key("b"), key("c")}


def test_closure_knows_only_changes() -> None:
    changes = ChangeSet((change("a", "gone"),))

    assert closure(frozenset((key("a"), key("unknown"))), changes) == {key("a")}


@given(change_sets(), KEYS)
def test_closing_twice_is_closing_once(changes: ChangeSet, keys: frozenset[Key]) -> None:
    assert closure(closure(keys, changes), changes) == closure(keys, changes)


@given(change_sets(), KEYS)
def test_in_a_closure_nothing_that_is_needed_is_missing(changes: ChangeSet, keys: frozenset[Key]) -> None:
    closed, table = closure(keys, changes), changes.by_key()

    assert all(need in closed for one in closed for need in table[one].requires if need in table)


@given(change_sets(), KEYS, KEYS)
def test_what_depends_on_nothing_in_a_closure_is_its_complement(
    changes: ChangeSet, keys: frozenset[Key], given_up: frozenset[Key]
) -> None:
    left = closure(keys, changes) - dependents(given_up, changes)

    assert closure(left, changes) == left


def test_below_is_the_path_and_what_is_in_it() -> None:
    changes = ChangeSet((change("d"), change("d-"), change("d/a"), change("d/e/b"), change("d0"), change("d/a", root=1)))

    assert [one.key.path for one in changes.below(0, b"d")] == [b"d", b"d/a", b"d/e/b"]


def test_below_nothing_is_the_whole_root() -> None:
    changes = ChangeSet((change("a"), change("b/c"), change("a", root=1)))

    assert [one.key for one in changes.below(0, b"")] == [key("a"), key("b/c")]


def test_a_deletion_has_the_type_that_stood_there() -> None:
    link = Entry(FileType.SYMLINK)

    assert Change(key("a"), Kind.DELETED, link, None).type is FileType.SYMLINK
    assert Change(key("a"), Kind.RETYPED, link, FILE).type is FileType.FILE


def test_identity_is_type_inode_size_and_both_times() -> None:
    one = Entry(FileType.FILE, mode=0o600, size=1, inode=2, mtime=3, ctime=4, links=5)

    assert one.identity == (FileType.FILE, 2, 1, 3, 4)
