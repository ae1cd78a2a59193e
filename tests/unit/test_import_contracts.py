"""The import contracts of pyproject.toml name every package, so that a new one is not forgotten."""

import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
MODULES = {path.stem for path in (REPOSITORY / "agent_dev").glob("*.py") if not path.stem.startswith("_")}
PACKAGES = {path.parent.name for path in (REPOSITORY / "agent_dev").glob("*/__init__.py")}
ALLOWED = {
    "Code that runs inside imports nothing of agent-dev": {"inside"},
    "The screen depends on a source only": {"inside", "sanitize", "diff", "overlay", "errors", "quick_dataclass"},
}


@pytest.mark.parametrize("contract", ALLOWED)
def test_a_contract_forbids_each_package_that_it_does_not_allow(contract: str) -> None:
    forbidden = next(one["forbidden_modules"] for one in CONTRACTS if one["name"] == contract)

    assert {name.removeprefix("agent_dev.") for name in forbidden} == (MODULES | PACKAGES) - ALLOWED[contract]


def test_the_contract_against_cycles_covers_the_whole_program() -> None:
    ancestors = next(one["ancestors"] for one in CONTRACTS if one["type"] == "acyclic_siblings")

    assert set(ancestors) == {"agent_dev", "tui"}
