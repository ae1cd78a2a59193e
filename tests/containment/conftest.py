"""One sandbox for each network, in which everything is tried at once; the tests look at what came of it."""

from pathlib import Path

import pytest

from tests.containment.git_host import Host
from tests.containment.world import World
from tests.harness.program import AgentDev
from tests.sandbox.conftest import namespaces

__all__ = ["namespaces"]


@pytest.fixture(scope="session", params=["host", "none"])
def net(request: pytest.FixtureRequest) -> str:
    """The network that the sandbox has."""
    return str(request.param)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A machine for one test."""
    return World(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A machine that the tests of a module share."""
    return World(tmp_path_factory.mktemp("machine"))


@pytest.fixture
def host(agent_dev: AgentDev, tmp_path: Path) -> Host:
    """A user's repository, and a marker that a planted program would leave."""
    return Host(agent_dev, tmp_path)
