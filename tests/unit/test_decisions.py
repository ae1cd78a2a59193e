"""Each decision page has a number of its own, the same in its name and in its title."""

import re
from collections import Counter
from pathlib import Path

PAGES = sorted((Path(__file__).parents[2] / "docs/decisions").glob("[0-9]*.md"))


def test_each_decision_has_a_number_of_its_own() -> None:
    counts = Counter(page.name[:4] for page in PAGES)

    assert len(counts) > 30
    assert [number for number, count in counts.items() if count > 1] == []


def test_the_number_in_the_title_is_that_of_the_page() -> None:
    titles = {page.name: re.match(r"# ([0-9]+)\. ", page.read_text(encoding="utf-8")) for page in PAGES}

    assert [name for name, title in titles.items() if title is None or int(title[1]) != int(name[:4])] == []
