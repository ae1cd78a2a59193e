"""docs/containment.md says what the tests of containment say."""

from tests.containment.rows import PAGE, all_rows, page


def test_the_page_is_the_one_that_is_made_of_the_tests() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.containment writes it anew"


def test_every_test_of_containment_has_a_row_of_its_own() -> None:
    ids = [row.id for row in all_rows()]
    assert len(ids) == len(set(ids))
