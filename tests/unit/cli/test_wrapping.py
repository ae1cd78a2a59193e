"""Messages are wrapped between words, and commands to copy stay whole where they fit."""

import pytest

from agent_dev.cli.wrapping import wrap_line

COMMAND = "agent-dev merge 261124-121711-2727 --export DIR"
LONG = "/a/" + "long-" * 30


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("short", ("short",)),
        ("one two three four five", ("one two three", "  four five")),
        ("a; bb cc dd ee; ff", ("a; bb cc dd ee;", "  ff")),
        ("xxxxxxxxx: agent-dev go; y", ("xxxxxxxxx:", "  agent-dev go;", "  y")),
        ("xxxxxxx (agent-dev go)", ("xxxxxxx", "  (agent-dev go)")),
    ],
)
def test_a_line_breaks_between_clauses_then_words(text: str, rows: tuple[str, ...]) -> None:
    assert wrap_line(text, 16, "  ") == rows


def test_a_command_to_copy_stays_on_one_row() -> None:
    rows = wrap_line(f"agent-dev: hint: a reason that is not short at all, {COMMAND} copies its files out", 80, "    ")
    assert [row for row in rows if COMMAND in row] != []
    assert all(len(row) <= 80 for row in rows)


def test_a_path_longer_than_the_row_is_not_broken() -> None:
    rows = wrap_line(f"cannot read {LONG}: permission denied", 80, "    ")
    assert f"    {LONG}:" in rows
    assert " ".join(row.strip() for row in rows) == f"cannot read {LONG}: permission denied"


def test_the_columns_of_a_table_keep_their_gaps() -> None:
    assert wrap_line("one  two", 80, "") == ("one  two",)
    assert wrap_line("one  two three", 9, "  ") == ("one  two", "  three")
