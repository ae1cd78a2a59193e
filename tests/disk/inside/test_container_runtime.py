"""The OCI runtime in the sandbox maps the user of a container, by its configuration."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_dev.inside import container_runtime


def mapped(folder: Path, user: dict[str, Any], kinds: tuple[str, ...] = ("pid", "mount")) -> dict[str, Any]:
    config = {"process": {"user": user}, "linux": {"namespaces": [{"type": kind} for kind in kinds]}}
    (folder / "config.json").write_text(json.dumps(config))
    container_runtime.map_user(str(folder))
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def test_another_user_becomes_the_only_one_of_a_user_namespace(tmp_path: Path) -> None:
    found = mapped(tmp_path, {"uid": 999, "gid": 33, "additionalGids": [33, 44]})
    assert {"type": "user"} in found["linux"]["namespaces"]
    assert found["linux"]["uidMappings"] == [{"containerID": 999, "hostID": 0, "size": 1}]
    assert found["linux"]["gidMappings"] == [{"containerID": 33, "hostID": 0, "size": 1}]
    assert "additionalGids" not in found["process"]["user"]


@pytest.mark.parametrize(("uid", "kinds"), [(0, ("pid",)), (999, ("pid", "user"))])
def test_root_and_a_namespace_of_the_containers_own_stay(tmp_path: Path, uid: int, kinds: tuple[str, ...]) -> None:
    found = mapped(tmp_path, {"uid": uid, "gid": 0}, kinds)
    assert [one["type"] for one in found["linux"]["namespaces"]] == list(kinds)
    assert "uidMappings" not in found["linux"]
