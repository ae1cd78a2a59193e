"""The scripts that run in the sandbox to install agents."""

import subprocess
from pathlib import Path

from agent_dev.agents.install_script import newest_command
from agent_dev.config.agent_entry import AgentEntry


def test_npm_prints_nothing_about_its_own_updates(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\necho "$NPM_CONFIG_UPDATE_NOTIFIER"\n')
    npm.chmod(0o755)
    command = newest_command(AgentEntry(npm="any"))
    done = subprocess.run(command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == "false\n"
