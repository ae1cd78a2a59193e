"""The paths of tests that .ci/run and the Makefile name: pytest runs nothing at all if one of them is missing."""

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
_PATH = re.compile(r"\btests/[\w/{},*.]+")


@pytest.mark.parametrize("name", [".ci/run", "Makefile"])
def test_every_test_path_that_ci_names_exists(name: str) -> None:
    patterns = _PATH.findall((REPOSITORY / name).read_text())
    assert patterns
    command = ["bash", "-O", "failglob", "-c", f"printf '%s\\n' {' '.join(patterns)}"]
    expanded = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    missing = [path for path in expanded.splitlines() if not (REPOSITORY / path).exists()]
    assert not missing, f"{name} names {missing}"
