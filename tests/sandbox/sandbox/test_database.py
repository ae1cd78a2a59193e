"""An agent uses a real PostgreSQL: over TCP on the host's loopback, and through its socket if an option mounts it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.program import AgentDev
from tests.harness.servers.postgres import Postgres, postgres


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    """Yield a PostgreSQL server of the test on 127.0.0.1 and a socket."""
    with postgres() as running:
        yield running


def test_a_database_on_loopback_is_reachable(agent_dev: AgentDev, database: Postgres) -> None:
    done = agent_dev("--", *database.psql("select 6 * 7"))
    assert done.stdout.strip() == "42", done.stderr


def test_without_a_network_the_database_is_unreachable(agent_dev: AgentDev, database: Postgres) -> None:
    done = agent_dev("--net", "none", "--", *database.psql("select 6 * 7"))
    assert done.returncode == 2
    assert "refused" in done.stderr


def test_the_databases_socket_is_not_mounted_by_default(agent_dev: AgentDev, database: Postgres) -> None:
    done = agent_dev("--", *database.psql("select 6 * 7", by_socket=True))
    assert done.returncode == 2
    assert "42" not in done.stdout


def test_the_databases_socket_is_reachable_when_mounted(agent_dev: AgentDev, database: Postgres) -> None:
    done = agent_dev(
        "--net", "none", "--ro", str(Path(database.socket_dir)), "--", *database.psql("select 6 * 7", by_socket=True)
    )
    assert done.stdout.strip() == "42", done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_rule_about_localhost_reaches_the_database(agent_dev: AgentDev, database: Postgres, host: str) -> None:
    words = [host if word == "127.0.0.1" else word for word in database.psql("select 6 * 7")]
    done = agent_dev("--net", "allow", "--allow", f"localhost:{database.port}", "--", *words)
    assert done.stdout.strip() == "42", done.stderr
    refused = agent_dev("--net", "allow", "--", *words)
    assert (refused.returncode, "refused" in refused.stderr) == (2, True)


def test_a_rule_about_a_socket_reaches_the_database(agent_dev: AgentDev, database: Postgres) -> None:
    done = agent_dev("--net", "allow", "--allow", f"unix:{database.socket}", "--", *database.psql("select 6 * 7", by_socket=True))
    assert done.stdout.strip() == "42", done.stderr
