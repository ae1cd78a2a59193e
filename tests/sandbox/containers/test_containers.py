"""Containers in the sandbox, with the podman of the distribution: images by import, ports, files, and a database by the API."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import lay_out_home, lay_out_repository
from tests.harness.containers.image import make_postgres_image, make_tools_image
from tests.harness.program import PYTHON, AgentDev, processes, wait_until

pytestmark = pytest.mark.only_podman
INSIDE = Path(__file__).parents[2] / "harness/containers/inside.py"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> AgentDev:
    """Return the program of a user with a repository."""
    home = lay_out_home(tmp_path_factory.mktemp("machine"))
    repo = lay_out_repository(home)
    (repo / "a").write_text("content\n")
    return AgentDev(home, repo)


@pytest.fixture(scope="module")
def found(program: AgentDev, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what an agent found that used containers in one session."""
    images = tmp_path_factory.mktemp("images")
    make_tools_image(images / "tools.tar")
    make_postgres_image(images / "postgres.tar")
    shutil.copy(INSIDE, images)
    words = ("--ro", images, "--", PYTHON, "-I", images / INSIDE.name, images)
    done = program("--no-merge", "--containers", *words, timeout=300)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def test_a_container_runs_as_root_of_its_namespace_or_as_any_user(found: dict[str, Any]) -> None:
    assert (found["root"], found["user"]) == ("0", "999"), found


def test_a_published_port_is_reached_in_the_sandbox(found: dict[str, Any]) -> None:
    assert found["port"] == "hello", found


def test_a_database_starts_by_the_docker_api_at_a_random_port(found: dict[str, Any]) -> None:
    assert (found["query"], found["exec"]) == ("42", "postgres"), found


def test_files_that_a_container_writes_are_reviewed(found: dict[str, Any], program: AgentDev) -> None:
    assert found["files"] == "content"
    assert "made.txt" in program("status").stdout


def test_a_privileged_container_sees_only_the_sandbox(found: dict[str, Any]) -> None:
    assert ".ssh" not in found["host"].split(), found
    assert found["host"], found


def test_no_control_group_is_visible_in_a_container(found: dict[str, Any]) -> None:
    assert found["groups"] == "seen", found


def test_only_images_in_the_agent_home_are_kept(found: dict[str, Any], program: AgentDev) -> None:
    assert found["names"] == "localhost/tools", found
    done = program("--no-merge", "--containers", "--", "podman", "images", "--format", "{{.Repository}}")
    assert done.stdout.split() == ["localhost/kept"], done.stderr


def test_nothing_of_a_container_outlives_the_sandbox(found: dict[str, Any], program: AgentDev) -> None:
    assert found["port"] == "hello"
    wait_until(lambda: not processes(found["marker"]), "the containers ended")
    assert not list(program.state.glob("sessions/*/caches"))


def test_a_container_needs_nesting(program: AgentDev, tmp_path: Path) -> None:
    settings = tmp_path / "config.yaml"
    settings.write_text("nested: false\n")
    done = program("--config", settings, "--containers", "--", "true")
    assert (done.returncode, "nested: true" in done.stderr) == (125, True), done.stderr
