"""CONTAINMENT C: processes, the kernel, resources."""

import os
import platform
from typing import Any

import pytest

from agent_dev.host import seccomp
from tests.containment.rows import row
from tests.containment.world import World

HARMLESS = {"ioctl", "socket", "socketpair", "clone", "unshare", "execve", "execveat"}  # judged by what they are given
PLAIN = {call for rule in seccomp.ALWAYS if not rule.checks for call in rule.calls}
COLUMN = {"x86_64": 0, "aarch64": 1}[platform.machine()]
CALLS = {name: seccomp.NUMBERS[name] for name in sorted(PLAIN) if seccomp.NUMBERS[name][COLUMN] >= 0}
EPERM = {"syslog", "open_by_handle_at"}


@pytest.fixture(scope="module")
def kernel(shared: World) -> dict[str, Any]:
    """What came of everything that is tried against the kernel."""
    return shared.tried({"sections": ["kernel"], "calls": CALLS, "key": "none", "families": {}})


@pytest.fixture(scope="module")
def forbidden(shared: World) -> dict[str, Any]:
    """The same under a profile that forbids nested sandboxes."""
    profile = shared.folder / "strict.yaml"
    profile.write_text("about: Strict.\ncommand: sh\nnested: false\n")
    calls = {name: seccomp.NUMBERS[name] for rule in seccomp.NESTED if not rule.checks for name in rule.calls}
    target = {"sections": ["kernel"], "calls": calls, "key": "none", "families": {}}
    return shared.tried(target, "--profile", profile)


@row("call the kernel by 32-bit or x32 numbers, past the filter", "calls of another architecture do not exist: ENOSYS")
def test_c14_calls_by_foreign_numbers_do_not_exist(kernel: dict[str, Any]) -> None:
    assert kernel["foreign_calls"] == {"getpid by int 0x80": "ENOSYS", "getpid of x32": "ENOSYS"}


@row(
    "io_uring, bpf, perf, userfaultfd, kexec, modules, quotas, swap, ports, the kernel's log, files by handle",
    "the filter: ENOSYS, so that programs do without, or EPERM",
)
def test_c27_calls_that_no_agent_needs_do_not_exist(kernel: dict[str, Any]) -> None:
    assert kernel["system_calls"] == {name: "EPERM" if name in EPERM else "ENOSYS" for name in CALLS}


@row(
    "reach the kernel's parts behind user namespaces and mounts",
    "a profile with `nested: false` forbids them; else agents and browsers sandbox their own commands with them",
)
def test_c09_namespaces_and_mounts_are_there_unless_the_profile_forbids_them(
    kernel: dict[str, Any], forbidden: dict[str, Any]
) -> None:
    root = os.getuid() == 0  # without capabilities nobody may map the id 0 anew
    assert kernel["nested_sandbox"] == [0, 1 if root else 0]
    assert forbidden["nested_sandbox"] == [1, 1]
    assert set(forbidden["system_calls"].values()) <= {"EPERM", "ENOSYS"}
