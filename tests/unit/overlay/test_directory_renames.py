"""Directories that were renamed as a whole: how they are found from renamed files, and which files belong to them."""

import pytest

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.overlay.directory_renames import counterparts, directory_of, find_directory_renames


def key(path: str) -> Key:
    return Key(0, path.encode())


def found(pairs: dict[str, str], *gone: str) -> dict[str, str]:
    """Return the renamed directories, new by old; `pairs`: the renamed files, new by old."""
    renames = {key(new): key(old) for old, new in pairs.items()}
    directories = find_directory_renames(renames, lambda one: one.path.decode() in gone)
    return {old.path.decode(): new.path.decode() for new, old in directories.items()}


@pytest.mark.parametrize(
    ("pairs", "gone", "expected"),
    [
        ({"src/a": "lib/a", "src/sub/b": "lib/sub/b"}, "src src/sub", {"src": "lib"}),
        ({"src/a": "lib/a", "src/sub/b": "lib/sub/b", "src/sub/c": "lib/sub/c"}, "src/sub", {"src/sub": "lib/sub"}),
        ({"src/a": "a", "src/b": "b"}, "src", {"src": ""}),
        ({"a/x/1": "b/x/1", "a/x/2": "b/x/2"}, "a/x", {"a/x": "b/x"}),
        ({"src/a": "lib/a", "src/b": "core/b"}, "src", {}),
        ({"src/a": "lib/a", "src/b": "lib/b", "src/c": "core/c"}, "src", {"src": "lib"}),
        ({"src/a": "lib/a", "src/b": "lib/b"}, "", {}),
        ({"src/a": "lib/a"}, "src", {}),
        ({"src/a": "lib/b", "src/c": "lib/d"}, "src", {}),
        ({"a": "lib/a", "b": "lib/b"}, "", {}),
    ],
)
def test_a_directory_is_renamed_if_it_is_gone_and_most_files_moved(
    pairs: dict[str, str], gone: str, expected: dict[str, str]
) -> None:
    assert found(pairs, *gone.split()) == expected


def entry(kind: FileType = FileType.FILE, size: int = 0, target: bytes = b"") -> Entry:
    return Entry(kind, size=size, target=target)


@pytest.mark.parametrize(
    ("before", "after", "is_pair"),
    [
        (entry(), entry(), True),
        (entry(FileType.SYMLINK, 1, b"a"), entry(FileType.SYMLINK, 1, b"a"), True),
        (entry(FileType.SYMLINK, 1, b"a"), entry(FileType.SYMLINK, 1, b"b"), False),
        (entry(), entry(FileType.SYMLINK, 1, b"a"), False),
    ],
)
def test_empty_files_and_links_are_paired_by_their_place(before: Entry, after: Entry, *, is_pair: bool) -> None:
    deleted = [Change(key("src/x/f"), ChangeKind.DELETED, before, None), Change(key("other"), ChangeKind.DELETED, entry(), None)]
    added = [Change(key("lib/x/f"), ChangeKind.ADDED, None, after), Change(key("lib/new"), ChangeKind.ADDED, None, entry())]
    expected = {key("lib/x/f"): key("src/x/f")} if is_pair else {}
    assert counterparts(deleted, added, {key("lib"): key("src")}) == expected


def test_only_files_at_the_same_place_belong_to_a_renamed_directory() -> None:
    directories = {key("lib"): key("src")}

    def renamed(old: str, new: str) -> Change:
        return Change(key(new), ChangeKind.RENAMED, entry(), entry(), renamed_from=key(old))

    assert directory_of(renamed("src/a/b", "lib/a/b"), directories) == key("lib")
    assert directory_of(renamed("src/a/b", "lib/a/c"), directories) is None
    assert directory_of(renamed("other/a", "lib/a"), directories) is None
    assert directory_of(Change(key("lib/a"), ChangeKind.ADDED, None, entry()), directories) is None
