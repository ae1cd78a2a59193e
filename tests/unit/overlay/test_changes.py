"""Requirements among changes, and the changes below a path."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import (
    UNASSESSED,
    Change,
    ChangeKind,
    ChangeSet,
    Resolution,
    with_dependents,
    with_requirements,
)

FILE = Entry(FileType.FILE)


def key(name: str, root: int = 0) -> Key:
    return Key(root, name.encode())


def change(name: str, *needs: str, root: int = 0) -> Change:
    return Change(key(name, root), ChangeKind.ADDED, None, FILE, requires=tuple(key(need, root) for need in needs))


@st.composite
def change_sets(draw: st.DrawFn) -> ChangeSet:
    """Draw changes with random requirements, including cycles and changes that do not exist."""
    names = "abcdef"
    needs = st.lists(st.sampled_from([*names, "gone"]), max_size=3)
    return ChangeSet(tuple(change(name, *draw(needs)) for name in names))


KEYS = st.frozensets(st.sampled_from([key(name) for name in "abcdef"]))


def test_closure_adds_transitive_requirements() -> None:
    changes = ChangeSet((change("a", "b"), change("b", "c"), change("c"), change("d")))

    assert with_requirements(frozenset((key("a"),)), changes) == {key("a"), key("b"), key("c")}


def test_dependents_adds_transitive_dependents() -> None:
    changes = ChangeSet((change("a", "b"), change("b", "c"), change("c"), change("d")))

    assert with_dependents(frozenset((key("c"),)), changes) == {key("a"), key("b"), key("c")}


def test_closure_contains_only_changes() -> None:
    changes = ChangeSet((change("a", "gone"),))

    assert with_requirements(frozenset((key("a"), key("unknown"))), changes) == {key("a")}


@given(change_sets(), KEYS)
def test_closure_is_idempotent(changes: ChangeSet, keys: frozenset[Key]) -> None:
    assert with_requirements(with_requirements(keys, changes), changes) == with_requirements(keys, changes)


@given(change_sets(), KEYS)
def test_a_closure_contains_all_requirements(changes: ChangeSet, keys: frozenset[Key]) -> None:
    closed, table = with_requirements(keys, changes), changes.by_key()

    assert all(need in closed for one in closed for need in table[one].requires if need in table)


@given(change_sets(), KEYS, KEYS)
def test_removing_dependents_from_a_closure_leaves_a_closure(
    changes: ChangeSet, keys: frozenset[Key], given_up: frozenset[Key]
) -> None:
    left = with_requirements(keys, changes) - with_dependents(given_up, changes)

    assert with_requirements(left, changes) == left


def test_below_includes_the_path_and_its_contents() -> None:
    changes = ChangeSet((change("d"), change("d-"), change("d/a"), change("d/e/b"), change("d0"), change("d/a", root=1)))

    assert [one.key.path for one in changes.below(0, b"d")] == [b"d", b"d/a", b"d/e/b"]


def test_below_the_empty_path_is_the_whole_root() -> None:
    changes = ChangeSet((change("a"), change("b/c"), change("a", root=1)))

    assert [one.key for one in changes.below(0, b"")] == [key("a"), key("b/c")]


def test_a_deletion_has_the_type_of_the_deleted_entry() -> None:
    link = Entry(FileType.SYMLINK)

    assert Change(key("a"), ChangeKind.DELETED, link, None).type is FileType.SYMLINK
    assert Change(key("a"), ChangeKind.RETYPED, link, FILE).type is FileType.FILE


def test_identity_is_type_inode_size_mtime_and_ctime() -> None:
    one = Entry(FileType.FILE, mode=0o600, size=1, inode=2, mtime=3, ctime=4, links=5)

    for name in ("type", "size", "inode", "mtime", "ctime"):
        value = FileType.SYMLINK if name == "type" else 9
        assert one.with_values(**{name: value}).identity != one.identity
    assert one.with_values(mode=0o644, links=1, attributes=(("user.a", b"b"),)).identity == one.identity


def test_findings_change_nothing_else() -> None:
    one = Change(
        key("a", 1),
        ChangeKind.EDITED,
        Entry(FileType.FILE, size=1),
        Entry(FileType.FILE, size=2),
        requires=(key("b"),),
        is_ignored=True,
        is_binary=True,
        insertions=1,
        deletions=2,
        risks=(UNASSESSED,),
        conflict="conflict",
        obstacle="obstacle",
        resolution=Resolution.BOTH,
        yours=Entry(FileType.FILE, size=3),
        is_from_commit=True,
        renamed_from=key("c"),
        copied_from=key("d"),
    )
    found = one.with_findings((), 3, 4, is_binary=False)
    assert found == replace(one, risks=(), insertions=3, deletions=4, is_binary=False)
