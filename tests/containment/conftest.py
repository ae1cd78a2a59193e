"""Fixtures of the containment tests: all attempts of a module run in one sandbox per network."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containment.support.git_host import Host
from tests.containment.support.world import Machine
from tests.harness.program import AgentDev
from tests.harness.terminal import Shell
from tests.sandbox.conftest import namespaces

__all__ = ["namespaces"]


@pytest.fixture(scope="module", autouse=True)
def program_is_executed() -> Iterator[None]:
    """Start the program as a user does: what it inherits is what an attack looks for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AgentDev, "may_fork", False)
        yield


@pytest.fixture(scope="session", params=["host", "none"])
def net(request: pytest.FixtureRequest) -> str:
    """Return the network of the sandbox, one of the parameters."""
    return str(request.param)


@pytest.fixture
def world(tmp_path: Path) -> Machine:
    """Return a machine for one test."""
    return Machine(tmp_path)


@pytest.fixture
def person(world: Machine) -> Iterator[Shell]:
    """Yield a shell of a user, in the repository."""
    with Shell(env=world.program.terminal_environment(), cwd=world.repo) as shell:
        yield shell


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Return a machine for the tests of a module."""
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture
def host(agent_dev: AgentDev, tmp_path: Path) -> Host:
    """Return a repository of the user, and a marker that a planted program would create."""
    return Host(agent_dev, tmp_path)
