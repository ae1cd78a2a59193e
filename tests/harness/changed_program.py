"""The program with a change, for what a test cannot cause from outside."""

import sys
from pathlib import Path

_PROGRAM = """#!{python}
import os, sys
sys.path.insert(0, {root!r})
from agent_dev.sandbox import setup_process
{change}
from agent_dev.cli.main import main
main()
"""


def write_changed_program(path: Path, change: str) -> Path:
    """Write a program that runs some Python code, which knows `setup_process` and `os`, before agent-dev; return its path."""
    path.write_text(_PROGRAM.format(python=sys.executable, root=str(Path(__file__).parents[2]), change=change))
    path.chmod(0o755)
    return path
