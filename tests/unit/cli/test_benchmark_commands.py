"""The benchmarks are rarely run: they must not use subcommands that no longer exist."""

import ast
from pathlib import Path

import pytest

from agent_dev.cli.main import SUBCOMMANDS
from benchmarks.scaling import scale

PROJECT = Path(__file__).parents[3]

TABLES = [
    (path.stem, node.value)
    for path in sorted((PROJECT / "benchmarks").rglob("*.py"))
    for node in ast.parse(path.read_text("utf-8")).body
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_COMMANDS"
]


@pytest.mark.parametrize(("name", "table"), TABLES, ids=[name for name, _ in TABLES])
def test_each_measured_command_exists(name: str, table: ast.expr) -> None:
    assert isinstance(table, ast.Tuple)
    words = [row.elts[0].value for row in table.elts if isinstance(row, ast.Tuple) and isinstance(row.elts[0], ast.Constant)]
    assert words
    assert not [word for word in words if not str(word).startswith("-") and word not in SUBCOMMANDS]


def test_the_memory_of_each_subcommand_is_measured_or_excused() -> None:
    assert not scale.missing_subcommands()


def test_only_subcommands_that_exist_are_excused() -> None:
    assert not [word for word in scale.NOT_MEASURED if word not in SUBCOMMANDS]
