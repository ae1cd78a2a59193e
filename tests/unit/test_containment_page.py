"""docs/containment.md agrees with the containment tests."""

from pathlib import Path

import pytest

from agent_dev.sandbox import seccomp
from tests.containment.mutations import MUTATIONS
from tests.containment.rows import PAGE, all_rows, page

REPOSITORY = Path(__file__).parents[2]

# 133 known escapes; other attempts have rows of their own.
KNOWN = {
    "A": "1 2 3 4 6 7 8 9 10 12 13 15 16 17 18 20 21 22 23",
    "B": "1 2 3 4 5 6 7 9 11 13 15 16 17 18 19 20",
    "C": "1 2 3 4 6 7 9 10 12 14 15 16 17 18 19 20 21 23 24 25 26 27 28 29",
    "D": "1 3 6 8 9 10 11 12 13 14 15 16 18 20 21 22 24 25 26 27",
    "E": "1 2 4 6 7 8 9 10 12 13 15 17 18 19 21 22 24 25 26 27",
    "F": "1 2 3 4 5 6 7 9 10 11 13 14 15 17 19 20 22 23 25 27 28",
    "G": "1 2 3 5 6 7 8 9 10 11 13 14 15",
}


def test_every_known_escape_has_a_test() -> None:
    wanted = {f"{section}{number}" for section, numbers in KNOWN.items() for number in numbers.split()}
    assert len(wanted) == 133
    assert sorted(wanted - {row.id for row in all_rows()}) == []


def test_the_documentation_is_generated_from_the_tests() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "regenerate it: python -m tests.containment"


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_tests_of_each_mutation_exist(name: str) -> None:
    path, _, wanted = MUTATIONS[name][1].partition(" -k ")
    assert f"def test_{wanted}_" in (REPOSITORY / path).read_text(encoding="utf-8")


def test_each_row_of_the_filter_has_a_mutation() -> None:
    assert {f"filter: {rule.name}" for rule in (*seccomp.BASE_RULES, *seccomp.NO_NESTING_RULES)} <= set(MUTATIONS)
