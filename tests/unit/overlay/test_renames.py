"""Renames: which files are paired, and how their halves become one change."""

from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind, ChangeSet, Risk
from agent_dev.overlay.fold_renames import fold_changes, fold_renames
from agent_dev.overlay.renames import MAX_COMPARED_FILES, Rename, detect_renames

TEXT = b"".join(b"line %d\n" % number for number in range(20))
RISK, OTHER = Risk("one", "why"), Risk("two", "why")


def key(path: bytes) -> Key:
    return Key(0, path)


def half(path: bytes, kind: ChangeKind, partner: bytes = b"", **more: object) -> Change:
    entry = Entry(FileType.FILE, size=9)
    before, after = (entry, None) if kind is ChangeKind.DELETED else (None, entry)
    requires = (key(partner),) if partner else ()
    return Change(key(path), kind, before, after, requires, **more)  # type: ignore[arg-type]


def pairs(deleted: dict[bytes, bytes], added: dict[bytes, bytes], threshold: float = 0.5) -> dict[bytes, bytes]:
    old, new = ({key(path): data for path, data in some.items()} for some in (deleted, added))
    return {one.old.path: one.new.path for one in detect_renames(old, new, threshold)}


def test_identical_files_are_paired_those_with_the_same_name_first() -> None:
    assert pairs({b"a/x": TEXT, b"a/y": TEXT}, {b"b/y": TEXT, b"b/x": TEXT, b"b/z": TEXT}) == {b"a/x": b"b/x", b"a/y": b"b/y"}


def test_a_file_of_the_same_name_is_paired_before_an_earlier_path() -> None:
    assert pairs({b"src/m": TEXT}, {b"lib/copy": TEXT, b"lib/m": TEXT}) == {b"src/m": b"lib/m"}


def test_the_most_similar_files_are_paired() -> None:
    changed = TEXT.replace(b"line 3\n", b"three\n")
    deleted = {b"a": TEXT, b"b": TEXT.replace(b"line 3\n", b"3\n").replace(b"line 4\n", b"4\n")}
    assert pairs(deleted, {b"n": changed, b"other": b"unlike\n" * 9}) == {b"a": b"n"}


def test_the_threshold_is_the_shared_part_of_the_larger_file() -> None:
    half_kept = TEXT[: len(TEXT) // 2] + b"x" * (len(TEXT) // 2)
    found = [pairs({b"a": TEXT}, {b"b": half_kept}, threshold) for threshold in (0.4, 0.6)]
    assert found == [{b"a": b"b"}, {}]


def test_empty_files_are_never_paired() -> None:
    assert pairs({b"a": b""}, {b"b": b""}) == {}


def test_of_many_files_only_identical_ones_are_paired() -> None:
    deleted = {b"%d" % number: TEXT + b"%d\n" % number for number in range(MAX_COMPARED_FILES + 2)}
    assert pairs(deleted, {b"new": TEXT + b"7\n", b"like": TEXT + b"other\n"}) == {b"7": b"new"}


def test_similarity_is_one_for_identical_files_only() -> None:
    found = detect_renames({key(b"a"): TEXT, key(b"b"): TEXT * 2}, {key(b"c"): TEXT, key(b"d"): TEXT * 2 + b"more\n"}, 0.5)
    assert (found[0], found[1].similarity < 1) == (Rename(key(b"a"), key(b"c"), 1.0), True)


def test_a_folded_rename_has_the_old_entry_and_the_risks_of_both_halves() -> None:
    old = half(b"old", ChangeKind.DELETED, b"new", risks=(OTHER,))
    new = half(b"new", ChangeKind.ADDED, b"old", risks=(RISK, OTHER))
    (folded,) = fold_changes((new, old), {new.key: old.key})
    assert (folded.kind, folded.key, folded.renamed_from) == (ChangeKind.RENAMED, new.key, old.key)
    assert (folded.before, folded.after, folded.risks, folded.requires) == (old.before, new.after, (RISK, OTHER), ())


def test_a_change_that_required_the_old_path_requires_the_new_one() -> None:
    old, new = half(b"d", ChangeKind.DELETED, b"new"), half(b"new", ChangeKind.ADDED, b"d")
    below = half(b"d/x", ChangeKind.ADDED, b"d")
    folded = fold_changes((old, below, new), {new.key: old.key})
    assert [(one.key.path, one.requires) for one in folded] == [(b"d/x", (key(b"new"),)), (b"new", ())]


def test_halves_in_conflict_stay_separate() -> None:
    old, new = half(b"old", ChangeKind.DELETED, b"new", conflict="you edited it"), half(b"new", ChangeKind.ADDED, b"old")
    assert fold_changes((old, new), {new.key: old.key}) == (old, new)


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=3), st.booleans()), unique_by=lambda one: one[0], max_size=12), st.data()
)
def test_folding_hides_only_old_paths(rows: list[tuple[bytes, bool]], data: st.DataObject) -> None:
    changes = tuple(half(path, ChangeKind.ADDED if is_new else ChangeKind.DELETED) for path, is_new in rows)
    added, deleted = ([one.key for one in changes if (one.after is None) is gone] for gone in (False, True))
    olds = data.draw(st.permutations(deleted))
    renames = dict(zip(added, olds, strict=False))
    folded = fold_renames(ChangeSet(changes, renames=renames))
    assert [one.key for one in folded.changes] == [one.key for one in changes if one.key not in renames.values()]
    assert {one.key: one.renamed_from for one in folded.changes if one.renamed_from} == renames
    assert fold_renames(folded) == folded
