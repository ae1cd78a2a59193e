"""A machine on which only bubblewrap may create namespaces: the setup process may not, and starts bubblewrap without them."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.harness.changed_program import write_changed_program
from tests.harness.disks.loop_disk import OTHER_TESTS_MOUNT
from tests.harness.program import PYTHON, AgentDev

BWRAP = os.environ.get("AGENT_DEV_BWRAP") or shutil.which("bwrap") or "bwrap"
# As root, the tests run in a mount namespace of their own, so that a failure leaves no mounts on the machine.
APART = () if os.getuid() else ("unshare", "--mount", "--propagation", "private")
REFUSED = """
def refused():
    raise PermissionError(1, "Operation not permitted")
setup_process.enter_namespaces = refused
"""


pytestmark = pytest.mark.only_new_bwrap


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program whose setup process is denied namespaces."""
    return write_changed_program(tmp_path / "refused", REFUSED)


def test_an_agent_runs_without_namespaces(agent_dev: AgentDev, program: Path) -> None:
    words = [*APART, program, "--no-merge", "--", "sh", "-c", "echo inside; exit 4"]
    done = subprocess.run(words, env=agent_dev.environment(), cwd=agent_dev.repo, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "inside\n"), done.stderr


@pytest.mark.only_root
def test_nothing_is_mounted_outside(agent_dev: AgentDev, program: Path) -> None:
    # Compare only new mounts, and not the disks of other tests, which appear and disappear during this one.
    code = f"cat /proc/self/mounts; echo; {program} --no-merge -- true; cat /proc/self/mounts"
    words = [*APART, "sh", "-c", code]
    done = subprocess.run(words, env=agent_dev.environment(), cwd=agent_dev.repo, capture_output=True, text=True, check=False)
    before, _, after = done.stdout.partition("\n\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [line for line in {*after.splitlines()} - {*before.splitlines()} if not OTHER_TESTS_MOUNT.search(line)]
    assert after


def test_a_network_of_its_own_works_in_namespaces_that_bubblewrap_made(agent_dev: AgentDev, program: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port})).close(); "
        code += "print(socket.socket().connect_ex(('93.184.215.14', 1)) or 'captured')"
        words = [*APART, program, "--no-merge", "--net", "allow", "--allow", f"localhost:{port}", "--", PYTHON, "-I", "-c", code]
        done = subprocess.run(words, env=agent_dev.environment(), cwd=agent_dev.repo, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "captured\n"), done.stderr
