"""No function, file or folder exceeds its size limit, in the program or in the tests."""

import ast
from collections import Counter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LONGEST = 600
LONGEST_FUNCTION = 50
LARGEST_FOLDER = 25
FOLDERS = pytest.mark.parametrize("folder", ["agent_dev", "tui", "tests", "benchmarks"])


@FOLDERS
def test_no_file_exceeds_its_line_limit(folder: str) -> None:
    sizes = {
        str(path.relative_to(REPOSITORY)): len(path.read_text(encoding="utf-8").split("\n")) - 1
        for path in (REPOSITORY / folder).rglob("*.py")
    }

    assert sizes
    assert {path: lines for path, lines in sizes.items() if lines > LONGEST} == {}, "split it by what its parts are about"


@FOLDERS
def test_no_function_exceeds_its_line_limit(folder: str) -> None:
    lengths = {
        f"{path.relative_to(REPOSITORY)} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in (REPOSITORY / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert lengths
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}, "split it by its steps"


@FOLDERS
def test_no_folder_exceeds_its_file_limit(folder: str) -> None:
    files = Counter(path.parent for path in (REPOSITORY / folder).rglob("*.py"))

    assert files
    assert {str(place): count for place, count in files.items() if count > LARGEST_FOLDER} == {}, "split it by capability"
