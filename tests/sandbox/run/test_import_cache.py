"""A run writes the file that the modules of the next start are imported from."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.harness.program import AgentDev, wait_until

PROJECT = Path(__file__).parents[3]


def test_a_run_without_the_file_writes_it_and_the_next_uses_it(agent_dev: AgentDev, tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "agent_dev", tmp_path / "agent_dev", ignore=shutil.ignore_patterns("modules.*"))
    shutil.copytree(PROJECT / "profiles", tmp_path / "profiles")
    folder = tmp_path / "agent_dev/__pycache__"

    def run(*flags: str) -> int:
        """Run the copy; with the flag -v, return how many of its modules were found and read one by one."""
        command = [sys.executable, *flags, str(PROJECT / "bin/agent-dev"), "--", "true"]
        env = agent_dev.environment({"PYTHONPATH": str(tmp_path)})
        done = subprocess.run(command, cwd=agent_dev.repo, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = done.stderr.splitlines()  # Python names each module that it imports, and where its code is from
        return sum(f"code object from '{tmp_path}/agent_dev/" in line for line in lines)

    assert run("-v") > 50
    run()
    wait_until(lambda: list(folder.glob("modules.*.cache")), "the file")
    assert run("-v") < 20
