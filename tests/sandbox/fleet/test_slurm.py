"""`tx --many --on` on an engine of config.yaml: a real Slurm cluster of two nodes, each with its own home."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.machines.slurm import NODES, Slurm, slurm
from tests.harness.program import AgentDev
from tests.sandbox.fleet.laws import check_interrupt, check_lost_host, check_resume

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, agent_dev: AgentDev) -> Iterator[Slurm]:
    """A cluster that the user reaches as the engine `lab`."""
    with slurm(tmp_path_factory.mktemp("slurm")) as found:
        found.use(agent_dev)
        yield found


def test_a_lost_node_loses_no_task_and_both_nodes_get_the_commit(agent_dev: AgentDev, cluster: Slurm, tmp_path: Path) -> None:
    check_lost_host(agent_dev, "lab", tmp_path, lambda _first: cluster.lose("n1"))
    assert [*cluster.home("n2").glob(".local/share/agent-dev-fleet/checkouts/*/*")]


def test_an_interrupt_ends_every_process_on_a_cluster(agent_dev: AgentDev, cluster: Slurm, tmp_path: Path) -> None:
    check_interrupt(agent_dev, "lab", tmp_path)


def test_a_killed_coordinator_resumes_on_a_cluster(agent_dev: AgentDev, cluster: Slurm, tmp_path: Path) -> None:
    check_resume(agent_dev, "lab", tmp_path, [cluster.home(node) for node in NODES])
