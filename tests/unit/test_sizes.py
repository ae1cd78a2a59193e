"""No file is longer than what one reads at a sitting, the tests no more than the program."""

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LONGEST = 410


@pytest.mark.parametrize("folder", ["agent_dev", "tui", "tests", "benchmarks"])
def test_no_file_has_more_lines_than_it_may(folder: str) -> None:
    sizes = {
        str(path.relative_to(REPOSITORY)): len(path.read_text(encoding="utf-8").split("\n")) - 1
        for path in (REPOSITORY / folder).rglob("*.py")
    }

    assert sizes
    assert {path: lines for path, lines in sizes.items() if lines > LONGEST} == {}, "split it by what its parts are about"
