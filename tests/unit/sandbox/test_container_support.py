"""What a plan gets for containers."""

import tomllib

import pytest

from agent_dev.sandbox.containers.support import (
    ContainerSupport,
    container_files,
    container_mounts,
    container_step,
    container_variables,
)
from agent_dev.sandbox.plan import Bind


def support(*, helper: str = "slirp4netns", images: str = "") -> ContainerSupport:
    return ContainerSupport(
        podman="/usr/bin/podman",
        python="/usr/bin/python3",
        script=b"",
        runtime_script=b"",
        helper=helper,
        device="/dev/net/tun" if helper else "",
        uid=1000,
        images=images,
    )


def configuration(found: ContainerSupport) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, object]]]:
    config, storage, _ = (data.decode() for _, data in container_files(found))
    return tomllib.loads(config), tomllib.loads(storage)


@pytest.mark.parametrize(("helper", "netns"), [("slirp4netns", "private"), ("", "host")])
def test_without_a_helper_containers_share_the_network(helper: str, netns: str) -> None:
    assert configuration(support(helper=helper))[0]["containers"]["netns"] == netns


@pytest.mark.parametrize("images", ["/home/me/images", '/home/a "b"', "/home/back\\slash", ""])
def test_every_directory_of_images_is_written_as_toml(images: str) -> None:
    options = configuration(support(images=images))[1]["storage"]["options"]
    assert isinstance(options, dict)
    assert options["additionalimagestores"] == [images] * bool(images)


def test_the_store_is_writable_and_in_the_session() -> None:
    binds = [mount for mount in container_mounts(support(), "/state/s") if isinstance(mount, Bind)]
    assert binds == [Bind("/var/lib/containers/storage", "/state/s/caches/containers", writable=True)]


def test_the_api_is_at_the_socket_that_the_step_creates() -> None:
    found = support()
    assert dict(container_variables(found))["DOCKER_HOST"] == f"unix://{found.socket}"
    assert found.socket in container_step(found)
    assert container_step(found)[-1] == "--"
