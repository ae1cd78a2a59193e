"""Versions of OpenSSH."""

import pytest

from agent_dev.ssh_agent.openssh import binds_sessions, parse_version


@pytest.mark.parametrize(
    ("text", "version", "is_new"),
    [
        ("OpenSSH_9.2p1 Debian-2+deb12u6, OpenSSL 3.0.19", (9, 2), True),
        ("OpenSSH_8.9p1", (8, 9), True),
        ("OpenSSH_8.4p1 Debian-5", (8, 4), False),
        ("OpenSSH_10.0p2", (10, 0), True),
    ],
)
def test_sessions_are_bound_from_8_9_on(text: str, version: tuple[int, int], *, is_new: bool) -> None:
    assert parse_version(text) == version
    assert binds_sessions(version) == is_new


@pytest.mark.parametrize("text", ["", "Dropbear v2022.83", "OpenSSH_x", "Open SSH_9.2"])
def test_another_program_has_no_version(text: str) -> None:
    assert parse_version(text) is None
