"""`tx --many --on` on hosts that are two other users, to which root connects: no one but sshd may end what they run."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.machines.ssh_hosts import SshHosts, ssh_hosts
from tests.harness.program import AgentDev
from tests.sandbox.fleet.laws import check_interrupt, check_lost_host, check_resume

pytestmark = pytest.mark.only_root
ON = "build1,build2"


@pytest.fixture
def hosts(agent_dev: AgentDev) -> Iterator[SshHosts]:
    """Two hosts that the user reaches, each another user."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with ssh_hosts(Path(name), ("build1", "build2"), has_users=True) as found:
            found.use(agent_dev)
            yield found


def test_a_lost_host_of_another_user_loses_no_task(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    check_lost_host(agent_dev, ON, tmp_path, lambda first: hosts.kill("build1" if "build1" in first else "build2"))
    owners = {path.stat().st_uid for path in hosts.folder.glob("build*/.local/share/agent-dev-fleet/checkouts/*/*")}
    assert len(owners) == 2
    assert os.geteuid() not in owners


def test_an_interrupt_ends_every_process_of_other_users(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    check_interrupt(agent_dev, ON, tmp_path)


def test_a_killed_coordinator_resumes_on_hosts_of_other_users(agent_dev: AgentDev, hosts: SshHosts, tmp_path: Path) -> None:
    check_resume(agent_dev, ON, tmp_path, [hosts.home("build1"), hosts.home("build2")])
