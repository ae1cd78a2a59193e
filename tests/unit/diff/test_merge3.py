"""Three-way merges of texts: laws, the resolutions of conflicts, and text with conflict markers for an editor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff import hunks
from agent_dev.diff.hunks import split_lines
from agent_dev.diff.merge3 import (
    ConflictSide,
    LineConflict,
    LineMerge,
    MergedRegion,
    RegionSource,
    UnresolvedConflict,
    format_with_markers,
    merge_lines,
    parse_edited,
)

PIECES = [
    b"a\n",
    b"b\n",
    b"c\r\n",
    b"\n",
    b"\r",
    b"\x0c",
    b"\xe2\x80\xa8\n",
    b"\xff\n",
    b"\0",
    b"x",
    b"<<<<<<< mine\n",
    b"=======\n",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join) | st.binary(max_size=30)
STABLE, USER_SIDE, AGENT, SAME = RegionSource.UNCHANGED, RegionSource.YOURS, RegionSource.AGENT, RegionSource.SAME
LONG = b"a" * 300_000


def stable(data: bytes) -> MergedRegion:
    return MergedRegion(STABLE, data, data)


def user_side(data: bytes, base: bytes) -> MergedRegion:
    return MergedRegion(USER_SIDE, data, base)


def agent(data: bytes, base: bytes) -> MergedRegion:
    return MergedRegion(AGENT, data, base)


def same(data: bytes, base: bytes) -> MergedRegion:
    return MergedRegion(SAME, data, base)


@given(TEXTS, TEXTS)
def test_if_only_the_agent_changed_the_result_is_the_agents(base: bytes, agent: bytes) -> None:
    assert merge_lines(base, base, agent).resolve() == agent


@given(TEXTS, TEXTS)
def test_if_only_the_user_changed_the_result_is_the_users(base: bytes, user_side: bytes) -> None:
    assert merge_lines(base, user_side, base).resolve() == user_side


@given(TEXTS, TEXTS)
def test_if_both_made_the_same_change_the_result_is_that(base: bytes, both: bytes) -> None:
    assert merge_lines(base, both, both).resolve() == both


@given(TEXTS, TEXTS, TEXTS)
def test_the_verdict_is_symmetric(base: bytes, user_side: bytes, agent: bytes) -> None:
    one, other = merge_lines(base, user_side, agent), merge_lines(base, agent, user_side)
    assert one.conflicts == tuple(LineConflict(c.base, c.agent, c.yours) for c in other.conflicts)
    yours, agents = one.default_resolutions(ConflictSide.YOURS), other.default_resolutions(ConflictSide.AGENT)
    assert one.resolve(yours) == other.resolve(agents)


@given(TEXTS, TEXTS, TEXTS)
def test_a_conflict_is_three_different_texts(base: bytes, user_side: bytes, agent: bytes) -> None:
    assert all(len({c.base, c.yours, c.agent}) == 3 for c in merge_lines(base, user_side, agent).conflicts)


@given(TEXTS, TEXTS, TEXTS)
def test_every_side_can_be_reconstructed_from_the_regions(base: bytes, user_side: bytes, agent: bytes) -> None:
    """If no region is the agent's alone, the conflicts resolved to yours give your text; likewise for the agent."""
    merged = merge_lines(base, user_side, agent)
    if not any(isinstance(region, MergedRegion) and region.source is AGENT for region in merged.regions):
        assert merged.resolve(merged.default_resolutions(ConflictSide.YOURS)) == user_side
    if not any(isinstance(region, MergedRegion) and region.source is USER_SIDE for region in merged.regions):
        assert merged.resolve(merged.default_resolutions(ConflictSide.AGENT)) == agent


@given(TEXTS, TEXTS, TEXTS)
def test_yours_of_every_conflict_is_in_the_result_resolved_to_yours(base: bytes, user_side: bytes, agent: bytes) -> None:
    merged = merge_lines(base, user_side, agent)
    result = merged.resolve(merged.default_resolutions(ConflictSide.YOURS))
    assert all(conflict.yours in result for conflict in merged.conflicts)


@given(TEXTS, TEXTS, TEXTS)
def test_no_line_of_the_result_joins_two_lines(base: bytes, user_side: bytes, agent: bytes) -> None:
    merged = merge_lines(base, user_side, agent)
    known = {line.rstrip(b"\r\n") for text in (base, user_side, agent) for line in split_lines(text)}
    for side in ConflictSide:
        got = split_lines(merged.resolve(merged.default_resolutions(side)))
        assert {line.rstrip(b"\r\n") for line in got} <= known


@pytest.mark.parametrize(
    ("base", "user_side", "agent", "regions"),
    [
        (b"", b"", b"", ()),
        (b"", b"a\n", b"a\n", (same(b"a\n", b""),)),
        (b"", b"a\n", b"b\n", (LineConflict(b"", b"a\n", b"b\n"),)),
        (b"a\n", b"", b"b\n", (LineConflict(b"a\n", b"", b"b\n"),)),
        (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", (user_side(b"A\n", b"a\n"), stable(b"b\n"), agent(b"C\n", b"c\n"))),
        (b"a\nb\n", b"A\nb\n", b"a\nB\n", (LineConflict(b"a\nb\n", b"A\nb\n", b"a\nB\n"),)),  # adjacent changes
        (b"a\nb\n", b"x\na\nb\n", b"x\na\nB\n", (same(b"x\n", b""), stable(b"a\n"), agent(b"B\n", b"b\n"))),
        (b"a", b"a\n", b"a\nb", (LineConflict(b"a", b"a\n", b"a\nb"),)),
        (b"a\nb\nc", b"A\nb\nc", b"a\nb\nc\n", (user_side(b"A\n", b"a\n"), stable(b"b\n"), agent(b"c\n", b"c"))),
        (
            b"a\r\nb\r\nc\r\n",
            b"a\nb\r\nc\r\n",
            b"a\r\nb\r\nc\n",
            (user_side(b"a\n", b"a\r\n"), stable(b"b\r\n"), agent(b"c\n", b"c\r\n")),
        ),
        (
            b"\0\nb\n\xff\n",
            b"\0\0\nb\n\xff\n",
            b"\0\nb\n\xfe\n",
            (user_side(b"\0\0\n", b"\0\n"), stable(b"b\n"), agent(b"\xfe\n", b"\xff\n")),
        ),
        (
            LONG + b"\nb\nc\n",
            LONG + b"x\nb\nc\n",
            LONG + b"\nb\nC\n",
            (user_side(LONG + b"x\n", LONG + b"\n"), stable(b"b\n"), agent(b"C\n", b"c\n")),
        ),
    ],
)
def test_regions_match_the_expected_table(
    base: bytes, user_side: bytes, agent: bytes, regions: tuple[MergedRegion | LineConflict, ...]
) -> None:
    assert merge_lines(base, user_side, agent).regions == regions


def test_past_the_limit_the_whole_file_is_in_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hunks, "MAX_DIFF_SIZE", 8)
    base, user_side, agent = b"a\nb\nc\nd\ne\n", b"A\nb\nc\nd\ne\n", b"a\nb\nc\nd\nE\n"
    assert merge_lines(base, user_side, agent).regions == (LineConflict(base, user_side, agent),)


# --- resolutions ---

TWO = LineMerge((LineConflict(b"o\n", b"m\n", b"a\n"), stable(b"-\n"), LineConflict(b"p", b"n", b"b")))


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([ConflictSide.YOURS, ConflictSide.AGENT], b"m\n-\nb"),
        ([ConflictSide.AGENT, ConflictSide.YOURS], b"a\n-\nn"),
        ([ConflictSide.BOTH, ConflictSide.BOTH], b"m\na\n-\nn\nb"),
        ([b"", b""], b"-\n"),
        ([b"by hand", b"too"], b"by hand\n-\ntoo"),
        ([b"\xff\0\r\n", ConflictSide.YOURS], b"\xff\0\r\n-\nn"),
    ],
)
def test_a_resolved_conflict_is_the_selected_side(choices: list[ConflictSide | bytes], expected: bytes) -> None:
    assert TWO.resolve(choices) == expected


def test_an_added_final_newline_has_the_files_line_ending() -> None:
    merged = merge_lines(b"a\r\nb", b"a\r\nc", b"a\r\nd")
    assert merged.resolve([ConflictSide.BOTH]) == b"a\r\nc\r\nd"


@pytest.mark.parametrize(
    ("choices", "number"), [([], 1), ([ConflictSide.YOURS], 2), ([None, ConflictSide.YOURS], 1), ([b"", None], 2)]
)
def test_an_unresolved_conflict_is_an_error_with_their_number(choices: list[ConflictSide | bytes | None], number: int) -> None:
    with pytest.raises(UnresolvedConflict, match=f"conflict {number} of 2 is not resolved"):
        TWO.resolve(choices)


def test_more_resolutions_than_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="3 resolutions for 2 choices"):
        TWO.resolve([ConflictSide.YOURS] * 3)


# --- edits left out ---


@given(TEXTS, TEXTS, TEXTS, st.data())
def test_a_left_out_edit_is_the_base_in_the_result(base: bytes, user_side: bytes, agent: bytes, data: st.DataObject) -> None:
    merged = merge_lines(base, user_side, agent)
    left = [isinstance(region, MergedRegion) and data.draw(st.booleans()) for region in merged.choices]
    resolutions = [ConflictSide.YOURS if one else ConflictSide.AGENT for one in left]
    is_left = iter(left)
    regions = [(region, region.is_choice and next(is_left)) for region in merged.regions]
    applied = [region.data if isinstance(region, MergedRegion) else region.agent for region, _ in regions]
    wanted = [region.base if is_out else text for (region, is_out), text in zip(regions, applied, strict=True)]
    assert merged.resolve(resolutions) == hunks.join_lines(wanted, merged.line_end)
    assert merged.left_out(resolutions) == sum(left)


@given(TEXTS, TEXTS, TEXTS)
def test_without_left_out_edits_nothing_remains(base: bytes, user_side: bytes, agent: bytes) -> None:
    merged = merge_lines(base, user_side, agent)
    assert merged.without_left_out(merged.default_resolutions(ConflictSide.YOURS)) == agent


def test_missing_resolutions_apply_the_agents_edits() -> None:
    merged = merge_lines(b"a\nb\nc\nd\ne\n", b"M\nb\nc\nd\ne\n", b"A\nb\nC\nd\nE\n")
    assert merged.resolve([ConflictSide.BOTH]) == b"M\nA\nb\nC\nd\nE\n"
    left_out = [ConflictSide.AGENT, ConflictSide.YOURS]
    assert (merged.resolve(left_out), merged.without_left_out(left_out)) == (b"A\nb\nc\nd\nE\n",) * 2


# --- conflict markers ---


def test_markers_equal_those_of_git() -> None:
    assert format_with_markers(TWO, b"yours", b"the agent's") == (
        b"<<<<<<< yours\nm\n=======\na\n>>>>>>> the agent's\n-\n<<<<<<< yours\nn\n=======\nb\n>>>>>>> the agent's\n"
    )


def test_the_base_is_shown_between_the_two_sides() -> None:
    merged = LineMerge((LineConflict(b"", b"m", b"a\r\n"),), b"\r\n")
    assert format_with_markers(merged, b"m", b"a", b"base") == b"<<<<<<< m\r\nm\r\n||||||| base\r\n=======\r\na\r\n>>>>>>> a\r\n"


def test_a_marker_is_longer_if_the_text_contains_such_lines() -> None:
    merged = merge_lines(b"", b"Title\n=======\n", b">>>>>>>> quoted\n")
    text = format_with_markers(merged, b"m", b"a")
    assert text == b"<" * 9 + b" m\nTitle\n=======\n" + b"=" * 9 + b"\n>>>>>>>> quoted\n" + b">" * 9 + b" a\n"
    assert parse_edited(merged, text) is None
    assert parse_edited(merged, b"Title\n=======\n>>>>>>>> quoted\n") == b"Title\n=======\n>>>>>>>> quoted\n"


@pytest.mark.parametrize(
    "left", [b"<<<<<<< m\n", b"a\n=======\n", b"=======", b">>>>>>> a\r\n", b"||||||| base\n", b"=======\r\n", b"<<<<<<<\n"]
)
def test_text_with_a_remaining_marker_is_not_accepted(left: bytes) -> None:
    assert parse_edited(TWO, b"x\n" + left) is None


@pytest.mark.parametrize("text", [b"", b"x", b" =======\n", b"========\n", b"======\n", b"<<<<<<<x\n", b"\0\xff\r"])
def test_text_without_a_marker_is_accepted_unchanged(text: bytes) -> None:
    assert parse_edited(TWO, text) == text


@given(TEXTS, TEXTS, TEXTS)
def test_marked_text_with_conflicts_is_not_accepted(base: bytes, user_side: bytes, agent: bytes) -> None:
    merged = merge_lines(base, user_side, agent)
    text = format_with_markers(merged, b"mine", b"agent")
    assert parse_edited(merged, text) == (text if merged.is_clean else None)
    assert not merged.is_clean or text == merged.resolve()


@given(TEXTS, TEXTS, TEXTS)
def test_resolved_text_is_always_accepted(base: bytes, user_side: bytes, agent: bytes) -> None:
    merged = merge_lines(base, user_side, agent)
    for side in ConflictSide:
        text = merged.resolve(merged.default_resolutions(side))
        assert parse_edited(merged, text) == text


@pytest.mark.parametrize("label", [b"a\nb", b"a\r"])
def test_a_label_is_one_line(label: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        format_with_markers(TWO, b"mine", label)
