"""`bin/agent-dev` of a checkout starts the program in its .venv, or says how to make one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "bin/agent-dev"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "agent_dev").mkdir()
    shutil.copy(SCRIPT, tmp_path / "bin")
    return tmp_path


def run(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = [str(checkout / "bin/agent-dev"), "a", "b c"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env={"PATH": os.defpath})


def test_a_checkout_that_is_not_set_up_explains_the_setup(checkout: Path) -> None:
    done = run(checkout)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"agent-dev: this checkout is not set up: run `make setup` in {checkout}\n"


def test_a_checkout_that_is_set_up_starts_its_own_program(checkout: Path) -> None:
    program = checkout / ".venv/bin/agent-dev"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    assert run(checkout).stdout == "a\nb c\n"
