"""How a list of changes is told in lines."""

import pytest

from agent_dev.core.changes import Change, ChangeSet, Entry, FileType, Key, Kind, Risk
from agent_dev.output.words import rows_of

FILE = Entry(FileType.FILE, 0o644)
RISK = Risk("hook", "it runs")


def added(name: str, **more: object) -> Change:
    return Change(Key(0, name.encode()), Kind.ADDED, None, FILE, **more)  # type: ignore[arg-type]


def many(count: int, **more: object) -> tuple[Change, ...]:
    return tuple(added(f"{number:04}", **more) for number in range(count))


def test_few_ignored_ones_are_shown_and_many_are_one_line() -> None:
    assert [*rows_of(ChangeSet(many(3, ignored=True)), ["/r"])] == [f"+ added    {n:04} [ignored]" for n in range(3)]
    rows = [*rows_of(ChangeSet((*many(4, ignored=True), added("risky", ignored=True, risks=(RISK,)), added("x"))), ["/r"])]
    assert rows[:2] == ["+ added    risky [ignored] ! hook", "+ added    x"]
    assert rows[2:] == ["4 more, ignored by git (agent-dev status --json lists them)"]


def test_of_a_shortened_list_what_stands_out_comes_first_and_a_number_stands_for_the_rest() -> None:
    changes = (*many(10), added("hook", risks=(RISK,)), added("mine", conflict="both made it"), added("z"))
    assert [*rows_of(ChangeSet(changes), ["/r"], 4)] == [
        "+ added    hook ! hook",
        "+ added    mine ✗ both made it",
        *(f"+ added    {n:04}" for n in range(4)),
        "7 more (agent-dev status)",
    ]
    risky = [*rows_of(ChangeSet(many(9, risks=(RISK,))), ["/r"], 4)]
    assert risky[-1] == "5 more of these (agent-dev status)"
    assert len(risky) == 5
    assert [*rows_of(ChangeSet(many(4)), ["/r"], 4)] == [f"+ added    {n:04}" for n in range(4)]


def test_no_change_is_compared_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(_one: object, _other: object) -> bool:
        raise AssertionError("16,000 of them took a minute")

    monkeypatch.setattr(Change, "__eq__", compared)
    assert len([*rows_of(ChangeSet((*many(50), *many(50, ignored=True))), ["/r"])]) == 51


def test_a_conflict_that_was_settled_for_the_agent_is_not_said_to_have_both() -> None:
    changes = (added("a", is_merged=True), added("b", is_merged=True, is_instead=True), added("c", is_merged=True, is_touched=True))
    assert [*rows_of(ChangeSet(changes), ["/r"])] == [
        "+ added    a (with what you changed)",
        "+ added    b (the agent's where both changed it)",
        "+ added    c",
    ]
