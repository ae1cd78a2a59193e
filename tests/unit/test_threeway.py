"""Three texts merged: the laws, conflicts resolved each way, and the text that goes to an editor and comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.diff import hunks as blocks_module
from agent_dev.diff.hunks import lines
from agent_dev.diff.merge3 import Conflict, Merged, Region, Side, Source, Unresolved, marked, merge, parse_marked

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
STABLE, MINE, AGENT, SAME = Source.STABLE, Source.MINE, Source.AGENT, Source.SAME
LONG = b"a" * 300_000


def stable(data: bytes) -> Region:
    return Region(STABLE, data)


def mine(data: bytes) -> Region:
    return Region(MINE, data)


def agent(data: bytes) -> Region:
    return Region(AGENT, data)


def same(data: bytes) -> Region:
    return Region(SAME, data)


@given(TEXTS, TEXTS)
def test_where_only_the_agent_changed_the_result_is_the_agents(base: bytes, agent: bytes) -> None:
    assert merge(base, base, agent).resolve() == agent


@given(TEXTS, TEXTS)
def test_where_only_i_changed_the_result_is_mine(base: bytes, mine: bytes) -> None:
    assert merge(base, mine, base).resolve() == mine


@given(TEXTS, TEXTS)
def test_where_both_made_the_same_the_result_is_that(base: bytes, both: bytes) -> None:
    assert merge(base, both, both).resolve() == both


@given(TEXTS, TEXTS, TEXTS)
def test_the_verdict_does_not_depend_on_who_is_who(base: bytes, mine: bytes, agent: bytes) -> None:
    one, other = merge(base, mine, agent), merge(base, agent, mine)
    assert one.conflicts == tuple(Conflict(c.base, c.agent, c.mine) for c in other.conflicts)
    assert one.resolve([Side.MINE] * len(one.conflicts)) == other.resolve([Side.AGENT] * len(one.conflicts))


@given(TEXTS, TEXTS, TEXTS)
def test_a_conflict_is_three_different_texts(base: bytes, mine: bytes, agent: bytes) -> None:
    assert all(len({c.base, c.mine, c.agent}) == 3 for c in merge(base, mine, agent).conflicts)


@given(TEXTS, TEXTS, TEXTS)
def test_every_side_can_be_read_back_from_the_regions(base: bytes, mine: bytes, agent: bytes) -> None:
    """What is not from the agent, and its conflicts as mine, is mine, where nothing is the agent's alone."""
    merged = merge(base, mine, agent)
    if not any(isinstance(region, Region) and region.source is AGENT for region in merged.regions):
        assert merged.resolve([Side.MINE] * len(merged.conflicts)) == mine
    if not any(isinstance(region, Region) and region.source is MINE for region in merged.regions):
        assert merged.resolve([Side.AGENT] * len(merged.conflicts)) == agent


@given(TEXTS, TEXTS, TEXTS)
def test_my_side_of_every_conflict_is_in_the_result_that_takes_mine(base: bytes, mine: bytes, agent: bytes) -> None:
    merged = merge(base, mine, agent)
    result = merged.resolve([Side.MINE] * len(merged.conflicts))
    assert all(conflict.mine in result for conflict in merged.conflicts)


@given(TEXTS, TEXTS, TEXTS)
def test_no_line_of_the_result_is_two_lines_grown_together(base: bytes, mine: bytes, agent: bytes) -> None:
    merged = merge(base, mine, agent)
    known = {line.rstrip(b"\r\n") for text in (base, mine, agent) for line in lines(text)}
    for side in Side:
        got = lines(merged.resolve([side] * len(merged.conflicts)))
        assert {line.rstrip(b"\r\n") for line in got} <= known


@pytest.mark.parametrize(
    ("base", "mine", "agent", "regions"),
    [
        (b"", b"", b"", ()),
        (b"", b"a\n", b"a\n", (same(b"a\n"),)),
        (b"", b"a\n", b"b\n", (Conflict(b"", b"a\n", b"b\n"),)),
        (b"a\n", b"", b"b\n", (Conflict(b"a\n", b"", b"b\n"),)),
        (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", (mine(b"A\n"), stable(b"b\n"), agent(b"C\n"))),
        (b"a\nb\n", b"A\nb\n", b"a\nB\n", (Conflict(b"a\nb\n", b"A\nb\n", b"a\nB\n"),)),  # they touch
        (b"a\nb\n", b"x\na\nb\n", b"x\na\nB\n", (same(b"x\n"), stable(b"a\n"), agent(b"B\n"))),
        (b"a", b"a\n", b"a\nb", (Conflict(b"a", b"a\n", b"a\nb"),)),
        (b"a\nb\nc", b"A\nb\nc", b"a\nb\nc\n", (mine(b"A\n"), stable(b"b\n"), agent(b"c\n"))),
        (b"a\r\nb\r\nc\r\n", b"a\nb\r\nc\r\n", b"a\r\nb\r\nc\n", (mine(b"a\n"), stable(b"b\r\n"), agent(b"c\n"))),
        (b"\0\nb\n\xff\n", b"\0\0\nb\n\xff\n", b"\0\nb\n\xfe\n", (mine(b"\0\0\n"), stable(b"b\n"), agent(b"\xfe\n"))),
        (LONG + b"\nb\nc\n", LONG + b"x\nb\nc\n", LONG + b"\nb\nC\n", (mine(LONG + b"x\n"), stable(b"b\n"), agent(b"C\n"))),
    ],
)
def test_regions(base: bytes, mine: bytes, agent: bytes, regions: tuple[Region | Conflict, ...]) -> None:
    assert merge(base, mine, agent).regions == regions


def test_past_the_limit_the_whole_file_is_in_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "LARGEST", 8)
    base, mine, agent = b"a\nb\nc\nd\ne\n", b"A\nb\nc\nd\ne\n", b"a\nb\nc\nd\nE\n"
    assert merge(base, mine, agent).regions == (Conflict(base, mine, agent),)


# --- resolving ---

TWO = Merged((Conflict(b"o\n", b"m\n", b"a\n"), Region(STABLE, b"-\n"), Conflict(b"p", b"n", b"b")))


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([Side.MINE, Side.AGENT], b"m\n-\nb"),
        ([Side.AGENT, Side.MINE], b"a\n-\nn"),
        ([Side.BOTH, Side.BOTH], b"m\na\n-\nn\nb"),
        ([b"", b""], b"-\n"),
        ([b"by hand", b"too"], b"by hand\n-\ntoo"),
        ([b"\xff\0\r\n", Side.MINE], b"\xff\0\r\n-\nn"),
    ],
)
def test_a_resolved_conflict_is_what_was_chosen(choices: list[Side | bytes], expected: bytes) -> None:
    assert TWO.resolve(choices) == expected


def test_a_line_end_that_had_to_be_added_is_the_files() -> None:
    merged = merge(b"a\r\nb", b"a\r\nc", b"a\r\nd")
    assert merged.resolve([Side.BOTH]) == b"a\r\nc\r\nd"


@pytest.mark.parametrize(("choices", "number"), [([], 1), ([Side.MINE], 2), ([None, Side.MINE], 1), ([b"", None], 2)])
def test_an_unresolved_conflict_is_an_error_that_counts(choices: list[Side | bytes | None], number: int) -> None:
    with pytest.raises(Unresolved, match=f"conflict {number} of 2 is not resolved"):
        TWO.resolve(choices)


def test_more_choices_than_conflicts_are_refused() -> None:
    with pytest.raises(ValueError, match="3 choices for 2 conflicts"):
        TWO.resolve([Side.MINE] * 3)


# --- markers ---


def test_markers_are_gits() -> None:
    assert marked(TWO, b"yours", b"the agent's") == (
        b"<<<<<<< yours\nm\n=======\na\n>>>>>>> the agent's\n-\n<<<<<<< yours\nn\n=======\nb\n>>>>>>> the agent's\n"
    )


def test_the_base_is_shown_between_the_two() -> None:
    merged = Merged((Conflict(b"", b"m", b"a\r\n"),), b"\r\n")
    assert marked(merged, b"m", b"a", b"base") == b"<<<<<<< m\r\nm\r\n||||||| base\r\n=======\r\na\r\n>>>>>>> a\r\n"


def test_a_marker_is_longer_where_the_text_holds_such_lines() -> None:
    merged = merge(b"", b"Title\n=======\n", b">>>>>>>> quoted\n")
    text = marked(merged, b"m", b"a")
    assert text == b"<" * 9 + b" m\nTitle\n=======\n" + b"=" * 9 + b"\n>>>>>>>> quoted\n" + b">" * 9 + b" a\n"
    assert parse_marked(merged, text) is None
    assert parse_marked(merged, b"Title\n=======\n>>>>>>>> quoted\n") == b"Title\n=======\n>>>>>>>> quoted\n"


@pytest.mark.parametrize(
    "left", [b"<<<<<<< m\n", b"a\n=======\n", b"=======", b">>>>>>> a\r\n", b"||||||| base\n", b"=======\r\n", b"<<<<<<<\n"]
)
def test_text_with_a_marker_left_is_not_read_back(left: bytes) -> None:
    assert parse_marked(TWO, b"x\n" + left) is None


@pytest.mark.parametrize("text", [b"", b"x", b" =======\n", b"========\n", b"======\n", b"<<<<<<<x\n", b"\0\xff\r"])
def test_text_without_a_marker_is_read_back_as_it_is(text: bytes) -> None:
    assert parse_marked(TWO, text) == text


@given(TEXTS, TEXTS, TEXTS)
def test_while_there_are_conflicts_the_marked_text_is_not_read_back(base: bytes, mine: bytes, agent: bytes) -> None:
    merged = merge(base, mine, agent)
    text = marked(merged, b"mine", b"agent")
    assert parse_marked(merged, text) == (text if merged.is_clean else None)
    assert not merged.is_clean or text == merged.resolve()


@given(TEXTS, TEXTS, TEXTS)
def test_resolved_text_can_always_be_read_back(base: bytes, mine: bytes, agent: bytes) -> None:
    merged = merge(base, mine, agent)
    for side in Side:
        text = merged.resolve([side] * len(merged.conflicts))
        assert parse_marked(merged, text) == text


@pytest.mark.parametrize("label", [b"a\nb", b"a\r"])
def test_a_label_is_one_line(label: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        marked(TWO, b"mine", label)
