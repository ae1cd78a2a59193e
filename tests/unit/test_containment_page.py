"""docs/containment.md says what the tests of containment say."""

from pathlib import Path

import pytest

from agent_dev.host import seccomp
from tests.containment.mutations import MUTATIONS
from tests.containment.rows import PAGE, all_rows, page

REPOSITORY = Path(__file__).parents[2]


def test_the_page_is_the_one_that_is_made_of_the_tests() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.containment writes it anew"


def test_the_sections_of_the_sandbox_have_their_rows() -> None:
    sections = [row.section for row in all_rows()]
    assert {section: sections.count(section) > 4 for section in "ABCDE"} == dict.fromkeys("ABCDE", True)


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_protection_that_can_be_taken_out_has_tests_that_exist(name: str) -> None:
    path, _, wanted = MUTATIONS[name][1].partition(" -k ")
    assert f"def test_{wanted}_" in (REPOSITORY / path).read_text(encoding="utf-8")


def test_each_row_of_the_filter_can_be_taken_out() -> None:
    assert {f"filter: {rule.name}" for rule in (*seccomp.ALWAYS, *seccomp.NESTED)} <= set(MUTATIONS)
