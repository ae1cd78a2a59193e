"""The scripts that run in the sandbox to install agents."""

import subprocess
from pathlib import Path

import pytest

from agent_dev.agents.install_script import newest_command
from agent_dev.config.agent_entry import AgentEntry


def test_npm_prints_nothing_about_its_own_updates(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\necho "$NPM_CONFIG_UPDATE_NOTIFIER"\n')
    npm.chmod(0o755)
    command = newest_command(AgentEntry(npm="any"))
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == "false\n"


@pytest.mark.parametrize(
    ("needed", "asked"), [("", "3.11"), ("3.9", "3.11"), ("3.12", "3.12"), ("3.9-3.10", "3.10"), ("3.10-3.12", "3.11")]
)
def test_the_newest_version_is_that_for_the_python_in_use(tmp_path: Path, needed: str, asked: str) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\n[ "$1" = -m ] || { echo 3.11; exit; }\necho "any ($*)"\n')
    python.chmod(0o755)
    command = newest_command(AgentEntry(pypi="any", python=needed))
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == f"-m pip index versions --python-version {asked} any\n"
