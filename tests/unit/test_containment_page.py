"""docs/containment.md says what the tests of containment say."""

from pathlib import Path

import pytest

from agent_dev.sandbox import seccomp
from tests.containment.mutations import MUTATIONS
from tests.containment.rows import PAGE, all_rows, page

REPOSITORY = Path(__file__).parents[2]

# The ways out that are known, 133 of them; what is tried besides has a row of its own, too.
KNOWN = {
    "A": "1 2 3 4 6 7 8 9 10 12 13 15 16 17 18 20 21 22 23",
    "B": "1 2 3 4 5 6 7 9 11 13 15 16 17 18 19 20",
    "C": "1 2 3 4 6 7 9 10 12 14 15 16 17 18 19 20 21 23 24 25 26 27 28 29",
    "D": "1 3 6 8 9 10 11 12 13 14 15 16 18 20 21 22 24 25 26 27",
    "E": "1 2 4 6 7 8 9 10 12 13 15 17 18 19 21 22 24 25 26 27",
    "F": "1 2 3 4 5 6 7 9 10 11 13 14 15 17 19 20 22 23 25 27 28",
    "G": "1 2 3 5 6 7 8 9 10 11 13 14 15",
}


def test_every_way_out_that_is_known_has_a_test_of_its_name() -> None:
    wanted = {f"{section}{number}" for section, numbers in KNOWN.items() for number in numbers.split()}
    assert len(wanted) == 133
    assert sorted(wanted - {row.id for row in all_rows()}) == []


def test_the_page_is_the_one_that_is_made_of_the_tests() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.containment writes it anew"


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_protection_that_can_be_taken_out_has_tests_that_exist(name: str) -> None:
    path, _, wanted = MUTATIONS[name][1].partition(" -k ")
    assert f"def test_{wanted}_" in (REPOSITORY / path).read_text(encoding="utf-8")


def test_each_row_of_the_filter_can_be_taken_out() -> None:
    assert {f"filter: {rule.name}" for rule in (*seccomp.ALWAYS, *seccomp.NESTED)} <= set(MUTATIONS)
