"""The benchmarks, which are rarely run in full: they still work, with small sizes and a single round."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
QUICK = ("startup", "busy", "steps", "first", "merging", "much")
SLOW = ("scale", "curves", "sandboxes", "tools", "large", "growth", "reviews")
NAMES = (*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW))


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_with_small_sizes(name: str) -> None:
    argv = (sys.executable, "-m", "benchmarks", "--quick", name)
    done = subprocess.run(argv, cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| what" in done.stdout
