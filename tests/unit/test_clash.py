"""What git says of commits in each other's way, read: which paths, from which sides, and what can be settled."""

import pytest

from agent_dev.diff.merge3 import Side
from agent_dev.git.merge_tree_conflict import DIRECTORY, GITLINK, NOTHING, Blob, Clash, has_marks, outcome, parse

A, B, C, TREE = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
LINES = b"\0".join((b"100644 %b 1\tx", b"100755 %b 2\tx", b"100644 %b 3\tx")) % (A.encode(), B.encode(), C.encode())
AUTO = b"1\0x\0Auto-merging\0Auto-merging x\n\0"


def said(rows: bytes, *kinds: bytes) -> bytes:
    messages = b"".join(b"2\0x\0y\0%b\0a sentence\n\0" % kind for kind in kinds)
    return TREE.encode() + b"\0" + rows + b"\0\0" + AUTO + messages


def test_the_three_sides_of_a_path_are_one_clash() -> None:
    tangle = parse(said(LINES, b"CONFLICT (contents)"))
    assert (tangle.tree, tangle.paths) == (TREE, (b"x",))
    assert tangle.clashes == (Clash(b"x", (0o100644, A), (0o100755, B), (0o100644, C)),)


@pytest.mark.parametrize(
    ("stages", "clash"),
    [
        ((b"1", b"2"), Clash(b"x", (0o100644, A), (0o100644, B), NOTHING)),
        ((b"1", b"3"), Clash(b"x", (0o100644, A), NOTHING, (0o100644, B))),
        ((b"2", b"3"), Clash(b"x", NOTHING, (0o100644, A), (0o100644, B))),
    ],
)
def test_a_side_without_a_file_is_nothing(stages: tuple[bytes, bytes], clash: Clash) -> None:
    rows = b"\0".join(b"100644 %b %b\tx" % (oid.encode(), stage) for oid, stage in zip((A, B), stages, strict=True))
    assert parse(said(rows, b"CONFLICT (modify/delete)")).clashes == (clash,)


@pytest.mark.parametrize(
    "kind",
    [
        b"CONFLICT (file/directory)",
        b"CONFLICT (distinct modes)",
        b"CONFLICT (submodule)",
        b"CONFLICT (new)",
    ],
)
def test_nothing_can_be_settled_where_one_conflict_is_not_known_or_of_other_paths(kind: bytes) -> None:
    tangle = parse(said(LINES, b"CONFLICT (contents)", kind))
    assert (tangle.paths, tangle.clashes) == ((b"x",), ())


def test_nothing_can_be_settled_where_git_says_what_is_not_understood() -> None:
    tangle = parse(said(LINES, b"CONFLICT (contents)") + b"Recursive merging with submodules\n - come back\n")
    assert (tangle.paths, tangle.clashes) == ((b"x",), ())


def test_a_submodule_beside_a_file_cannot_be_settled() -> None:
    assert not parse(said(LINES.replace(b"100755", b"160000"), b"CONFLICT (contents)")).clashes


LINKS = LINES.replace(b"100644", b"160000").replace(b"100755", b"160000")
ADVICE = b"Recursive merging with submodules currently only supports trivial cases.\n - and so on\n"


@pytest.mark.parametrize("why", [b"", b" not initialized", b" history not available", b" may have rewinds"])
def test_a_submodule_that_both_moved_is_one_clash(why: bytes) -> None:
    row = b"1\0x\0CONFLICT (submodule%b)\0a sentence\n\0" % why
    answer = TREE.encode() + b"\0" + LINKS + b"\0\0" + row + b"1\0x\0CONFLICT (contents)\0another\n\0" + ADVICE
    assert parse(answer).clashes == (Clash(b"x", (GITLINK, A), (GITLINK, B), (GITLINK, C)),)


@pytest.mark.parametrize("rows", [LINES, LINKS])
def test_what_git_says_of_submodules_is_about_those_alone(rows: bytes) -> None:
    assert not parse(said(rows, b"CONFLICT (contents)", b"CONFLICT (submodule)")).clashes  # of "y", too, which is none
    assert bool(parse(said(rows, b"CONFLICT (contents)") + ADVICE).clashes) == (rows is LINKS)


def test_a_path_may_hold_what_else_parts_the_fields() -> None:
    assert parse(said(LINES.replace(b"\tx", b"\ta b\n\t"), b"CONFLICT (contents)")).paths == (b"a b\n\t",)


@pytest.mark.parametrize(
    ("base", "mine", "agent", "mode"),
    [
        (0o100644, 0o100644, 0o100755, 0o100755),
        (0o100644, 0o100755, 0o100644, 0o100755),
        (0o100755, 0o100644, 0o100755, 0o100644),
        (0, 0o100755, 0o100644, 0o100755),
    ],
)
def test_the_mode_is_that_of_the_side_that_changed_it(base: int, mine: int, agent: int, mode: int) -> None:
    assert Clash(b"x", (base, A), (mine, B), (agent, C)).mode == mode


def test_a_path_that_is_gone_on_either_side_is_no_clash() -> None:
    rows = b"\0".join((b"100644 %b 1\tx", b"100644 %b 2\ty", b"100644 %b 3\tz")) % (A.encode(), B.encode(), C.encode())
    tangle = parse(said(rows, b"CONFLICT (rename/rename)"))
    assert tangle.clashes == (Clash(b"y", mine=(0o100644, B)), Clash(b"z", agent=(0o100644, C)))
    assert tangle.maybe_marked == (B,)  # the message names x and y


def test_a_file_that_was_put_aside_is_told_at_its_own_path() -> None:
    rows = b"100644 %b 1\tx\x00100644 %b 2\tx" % (A.encode(), B.encode())
    (made,) = parse(said(rows, b"CONFLICT (file/directory)")).clashes
    assert (made, made.aside) == (Clash(b"y", (0o100644, A), (0o100644, B), (DIRECTORY, "")), b"x")


def test_two_kinds_of_a_path_are_told_together() -> None:
    rows = b"120000 %b 3\tx\x00100644 %b 1\ty\x00100644 %b 2\ty" % (C.encode(), A.encode(), B.encode())
    (made,) = parse(said(rows, b"CONFLICT (distinct modes)")).clashes
    assert (made, made.aside) == (Clash(b"x", (0o100644, A), (0o100644, B), (0o120000, C)), b"y")


FILE, LINK, TREES, NEW = ((0o100644, A), (0o120000, B), (DIRECTORY, C), (0o100755, "e" * 40))
TAKEN = frozenset((b"x~m", b"x/in", b"x/deep/in", b"xy", b"x~agent/z"))


@pytest.mark.parametrize(
    ("mine", "agent", "answer", "stands"),
    [
        (FILE, LINK, Side.MINE, {b"x": FILE}),
        (FILE, LINK, Side.AGENT, {b"x": LINK}),
        (FILE, LINK, Side.BOTH, {b"x": FILE, b"x~agent~": LINK}),
        (FILE, FILE, NEW, {b"x": NEW}),
        (FILE, NOTHING, Side.AGENT, {b"x": NOTHING}),
        (FILE, TREES, Side.MINE, {b"x": FILE, b"x/in": NOTHING, b"x/deep/in": NOTHING}),
        (FILE, TREES, Side.AGENT, {}),
        (FILE, TREES, Side.BOTH, {b"x~yours": FILE}),
        (TREES, FILE, Side.MINE, {}),
        (TREES, FILE, Side.AGENT, {b"x": FILE, b"x/in": NOTHING, b"x/deep/in": NOTHING}),
        (TREES, FILE, Side.BOTH, {b"x~agent~": FILE}),
    ],
)
def test_each_answer_has_its_outcome(mine: Blob, agent: Blob, answer: Side | Blob, stands: dict[bytes, Blob]) -> None:
    one = Clash(b"x", NOTHING, mine, agent, b"x~m")
    assert outcome(one, answer, TAKEN) == {b"x~m": NOTHING, **stands}


@pytest.mark.parametrize(
    ("data", "is_marked"), [(b"<<<<<<< a\n=======\n>>>>>>> b\n", True), (b"<<<<<<< a\n", False), (b"a", False)]
)
def test_marks_are_known(data: bytes, is_marked: bool) -> None:  # noqa: FBT001
    assert has_marks(data) is is_marked
