"""Conflicts parsed from the output of `git merge-tree`: paths, sides, and whether they can be resolved."""

import pytest

from agent_dev.diff.merge3 import ConflictSide
from agent_dev.git.formats.packed_blobs import Blob
from agent_dev.git.merge_tree_conflict import (
    DIRECTORY,
    GITLINK,
    NO_BLOB,
    PathConflict,
    has_conflict_markers,
    parse_merge_tree,
    resolve_paths,
)

A, B, C, TREE = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
LINES = b"\0".join((b"100644 %b 1\tx", b"100755 %b 2\tx", b"100644 %b 3\tx")) % (A.encode(), B.encode(), C.encode())
AUTO = b"1\0x\0Auto-merging\0Auto-merging x\n\0"


def printed(rows: bytes, *kinds: bytes) -> bytes:
    messages = b"".join(b"2\0x\0y\0%b\0a sentence\n\0" % kind for kind in kinds)
    return TREE.encode() + b"\0" + rows + b"\0\0" + AUTO + messages


def test_the_three_stages_of_a_path_are_one_conflict() -> None:
    result = parse_merge_tree(printed(LINES, b"CONFLICT (contents)"))
    assert (result.tree, result.paths) == (TREE, (b"x",))
    assert result.conflicts == (PathConflict(b"x", (0o100644, A), (0o100755, B), (0o100644, C)),)


@pytest.mark.parametrize(
    ("stages", "conflict"),
    [
        ((b"1", b"2"), PathConflict(b"x", (0o100644, A), (0o100644, B), NO_BLOB)),
        ((b"1", b"3"), PathConflict(b"x", (0o100644, A), NO_BLOB, (0o100644, B))),
        ((b"2", b"3"), PathConflict(b"x", NO_BLOB, (0o100644, A), (0o100644, B))),
    ],
)
def test_a_missing_stage_is_none(stages: tuple[bytes, bytes], conflict: PathConflict) -> None:
    rows = b"\0".join(b"100644 %b %b\tx" % (oid.encode(), stage) for oid, stage in zip((A, B), stages, strict=True))
    assert parse_merge_tree(printed(rows, b"CONFLICT (modify/delete)")).conflicts == (conflict,)


@pytest.mark.parametrize(
    "kind",
    [
        b"CONFLICT (file/directory)",
        b"CONFLICT (distinct modes)",
        b"CONFLICT (submodule)",
        b"CONFLICT (new)",
    ],
)
def test_nothing_is_resolvable_if_one_conflict_is_unknown_or_of_other_paths(kind: bytes) -> None:
    result = parse_merge_tree(printed(LINES, b"CONFLICT (contents)", kind))
    assert (result.paths, result.conflicts) == ((b"x",), ())


def test_nothing_is_resolvable_if_gits_output_is_not_understood() -> None:
    result = parse_merge_tree(printed(LINES, b"CONFLICT (contents)") + b"Recursive merging with submodules\n - come back\n")
    assert (result.paths, result.conflicts) == ((b"x",), ())


def test_a_conflict_of_submodule_and_file_is_not_resolvable() -> None:
    assert not parse_merge_tree(printed(LINES.replace(b"100755", b"160000"), b"CONFLICT (contents)")).conflicts


LINKS = LINES.replace(b"100644", b"160000").replace(b"100755", b"160000")
ADVICE = b"Recursive merging with submodules currently only supports trivial cases.\n - and so on\n"


@pytest.mark.parametrize("why", [b"", b" not initialized", b" history not available", b" may have rewinds"])
def test_a_submodule_moved_by_both_is_one_conflict(why: bytes) -> None:
    row = b"1\0x\0CONFLICT (submodule%b)\0a sentence\n\0" % why
    answer = TREE.encode() + b"\0" + LINKS + b"\0\0" + row + b"1\0x\0CONFLICT (contents)\0another\n\0" + ADVICE
    assert parse_merge_tree(answer).conflicts == (PathConflict(b"x", (GITLINK, A), (GITLINK, B), (GITLINK, C)),)


@pytest.mark.parametrize("rows", [LINES, LINKS])
def test_submodule_messages_of_git_concern_submodules_alone(rows: bytes) -> None:
    assert not parse_merge_tree(
        printed(rows, b"CONFLICT (contents)", b"CONFLICT (submodule)")
    ).conflicts  # the message also names "y", which is no submodule
    assert bool(parse_merge_tree(printed(rows, b"CONFLICT (contents)") + ADVICE).conflicts) == (rows is LINKS)


def test_a_path_may_contain_the_field_separators() -> None:
    assert parse_merge_tree(printed(LINES.replace(b"\tx", b"\ta b\n\t"), b"CONFLICT (contents)")).paths == (b"a b\n\t",)


@pytest.mark.parametrize(
    ("base", "user_side", "agent", "mode"),
    [
        (0o100644, 0o100644, 0o100755, 0o100755),
        (0o100644, 0o100755, 0o100644, 0o100755),
        (0o100755, 0o100644, 0o100755, 0o100644),
        (0, 0o100755, 0o100644, 0o100755),
    ],
)
def test_the_mode_is_taken_from_the_side_that_changed_it(base: int, user_side: int, agent: int, mode: int) -> None:
    assert PathConflict(b"x", (base, A), (user_side, B), (agent, C)).mode == mode


def test_a_path_deleted_on_both_sides_is_no_conflict() -> None:
    rows = b"\0".join((b"100644 %b 1\tx", b"100644 %b 2\ty", b"100644 %b 3\tz")) % (A.encode(), B.encode(), C.encode())
    result = parse_merge_tree(printed(rows, b"CONFLICT (rename/rename)"))
    assert result.conflicts == (PathConflict(b"y", yours=(0o100644, B)), PathConflict(b"z", agent=(0o100644, C)))
    assert result.maybe_marked == (B,)  # the message names x and y


def test_a_file_moved_aside_by_git_is_reported_at_its_own_path() -> None:
    rows = b"100644 %b 1\tx\x00100644 %b 2\tx" % (A.encode(), B.encode())
    (made,) = parse_merge_tree(printed(rows, b"CONFLICT (file/directory)")).conflicts
    assert (made, made.renamed_to) == (PathConflict(b"y", (0o100644, A), (0o100644, B), (DIRECTORY, "")), b"x")


def test_two_file_types_of_a_path_are_one_conflict() -> None:
    rows = b"120000 %b 3\tx\x00100644 %b 1\ty\x00100644 %b 2\ty" % (C.encode(), A.encode(), B.encode())
    (made,) = parse_merge_tree(printed(rows, b"CONFLICT (distinct modes)")).conflicts
    assert (made, made.renamed_to) == (PathConflict(b"x", (0o100644, A), (0o100644, B), (0o120000, C)), b"y")


FILE, LINK, TREES, NEW = ((0o100644, A), (0o120000, B), (DIRECTORY, C), (0o100755, "e" * 40))
TAKEN = frozenset((b"x~m", b"x/in", b"x/deep/in", b"xy", b"x~agent/z"))


@pytest.mark.parametrize(
    ("user_side", "agent", "answer", "stands"),
    [
        (FILE, LINK, ConflictSide.YOURS, {b"x": FILE}),
        (FILE, LINK, ConflictSide.AGENT, {b"x": LINK}),
        (FILE, LINK, ConflictSide.BOTH, {b"x": FILE, b"x~agent~": LINK}),
        (FILE, FILE, NEW, {b"x": NEW}),
        (FILE, NO_BLOB, ConflictSide.AGENT, {b"x": NO_BLOB}),
        (FILE, TREES, ConflictSide.YOURS, {b"x": FILE, b"x/in": NO_BLOB, b"x/deep/in": NO_BLOB}),
        (FILE, TREES, ConflictSide.AGENT, {}),
        (FILE, TREES, ConflictSide.BOTH, {b"x~yours": FILE}),
        (TREES, FILE, ConflictSide.YOURS, {}),
        (TREES, FILE, ConflictSide.AGENT, {b"x": FILE, b"x/in": NO_BLOB, b"x/deep/in": NO_BLOB}),
        (TREES, FILE, ConflictSide.BOTH, {b"x~agent~": FILE}),
    ],
)
def test_each_resolution_has_its_result(
    user_side: Blob, agent: Blob, answer: ConflictSide | Blob, stands: dict[bytes, Blob]
) -> None:
    one = PathConflict(b"x", NO_BLOB, user_side, agent, b"x~m")
    assert resolve_paths(one, answer, TAKEN) == {b"x~m": NO_BLOB, **stands}


@pytest.mark.parametrize(
    ("data", "is_marked"), [(b"<<<<<<< a\n=======\n>>>>>>> b\n", True), (b"<<<<<<< a\n", False), (b"a", False)]
)
def test_conflict_markers_are_recognized(data: bytes, is_marked: bool) -> None:  # noqa: FBT001
    assert has_conflict_markers(data) is is_marked
