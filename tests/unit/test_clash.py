"""What git says of commits in each other's way, read: which paths, from which sides, and what can be settled."""

import pytest

from agent_dev.core.clash import NOTHING, Clash, parse

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
        b"CONFLICT (rename/rename)",
        b"CONFLICT (distinct modes)",
        b"CONFLICT (submodule)",
        b"CONFLICT (new)",
    ],
)
def test_nothing_can_be_settled_where_one_conflict_is_of_more_than_a_path(kind: bytes) -> None:
    tangle = parse(said(LINES, b"CONFLICT (contents)", kind))
    assert (tangle.paths, tangle.clashes) == ((b"x",), ())


def test_nothing_can_be_settled_where_git_says_what_is_not_understood() -> None:
    tangle = parse(said(LINES, b"CONFLICT (contents)") + b"Recursive merging with submodules\n - come back\n")
    assert (tangle.paths, tangle.clashes) == ((b"x",), ())


def test_a_submodule_cannot_be_settled() -> None:
    assert not parse(said(LINES.replace(b"100755", b"160000"), b"CONFLICT (contents)")).clashes


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
