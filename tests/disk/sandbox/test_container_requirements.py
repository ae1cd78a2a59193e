"""What this machine has for containers: interfaces, rules about images."""

from pathlib import Path

import pytest

from agent_dev.sandbox.containers import requirements


def interface(folder: Path, name: str, index: int, flags: str = "") -> None:
    (folder / name).mkdir()
    (folder / name / "ifindex").write_text(f"{index}\n")
    if flags:
        (folder / name / "tun_flags").write_text(f"{flags}\n")


@pytest.mark.parametrize(("flags", "found"), [("0x1001", ""), ("0x1801", "tap0"), ("0x1101", "tap0"), ("", "")])
def test_an_interface_is_attachable_if_persistent_or_with_many_queues(tmp_path: Path, flags: str, found: str) -> None:
    interface(tmp_path, "eth0", 2)
    interface(tmp_path, "tap0", 3, flags)
    assert requirements.attachable_interface([(1, "lo"), (2, "eth0"), (3, "tap0")], str(tmp_path)) == found


@pytest.mark.parametrize("index", [3, 4])
def test_an_interface_of_another_namespace_than_sysfs_counts_as_attachable(tmp_path: Path, index: int) -> None:
    interface(tmp_path, "eth0", 2)
    name = "eth0" if index == 4 else "tap0"
    assert requirements.attachable_interface([(index, name)], str(tmp_path)) == name


def test_rules_about_images_are_copied_and_certificates_are_not(tmp_path: Path) -> None:
    (tmp_path / "certs.d").mkdir()
    (tmp_path / "registries.conf.d").mkdir()
    (tmp_path / "certs.d/client.key").write_text("secret")
    (tmp_path / "registries.conf").write_text("a")
    (tmp_path / "registries.conf.d/b.conf").write_text("b")
    found = dict(requirements.host_configuration(str(tmp_path)))
    assert set(found) == {"containers/policy.json", "containers/registries.conf", "containers/registries.conf.d/b.conf"}


def test_without_podmans_configuration_there_is_a_policy(tmp_path: Path) -> None:
    assert [name for name, _ in requirements.host_configuration(str(tmp_path / "none"))] == ["containers/policy.json"]
