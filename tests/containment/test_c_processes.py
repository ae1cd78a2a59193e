"""CONTAINMENT C: processes, the kernel, resources."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_dev.host import seccomp
from tests.containment.rows import row
from tests.containment.world import World
from tests.harness.program import PYTHON, AgentDev

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


# Resources


def text_of(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


FILL = """if True:
    import errno, os, sys
    for place in ("/tmp", "/var/tmp", "/run", "/dev/shm"):
        fd = os.open(f"{place}/large", os.O_CREAT | os.O_WRONLY)
        try:
            os.posix_fallocate(fd, 0, 3 << 20)
        except OSError as error:
            print(place, errno.errorcode[error.errno])
"""


@row(
    "fill the memory, by files in `/tmp` or by processes",
    "a size on every tmpfs; `--limit memory=…, processes=…` by a control group or, without one, for each process",
)
def test_c23_memory_and_processes_end_at_their_limits(agent_dev: AgentDev) -> None:
    filled = agent_dev("--limit", "tmp=2M", "--", PYTHON, "-I", "-c", FILL)
    assert [line.split()[1] for line in filled.stdout.splitlines()] == ["ENOSPC"] * 4
    grown = agent_dev("--limit", "memory=200M", "--", PYTHON, "-I", "-c", "x = bytearray(400 << 20); print('grown')")
    assert "grown" not in grown.stdout
    assert grown.returncode != 0
    forked = agent_dev("--limit", "processes=30", "--", "sh", "-c", "for i in $(seq 60); do sleep 20 & done; wait")
    assert "fork" in text_of(forked)


@row(
    "fill the disk through the repository or the agent home",
    "a watch on free space ends the agent while a merge still fits; `--limit file-size=…`, `free-disk=…`",
)
def test_c24_the_agent_ends_before_the_disk_is_full_and_the_merge_still_fits(agent_dev: AgentDev) -> None:
    state = agent_dev.state.parent
    state.mkdir(exist_ok=True)
    script = """
        mount -t tmpfs -o size=64m tmpfs "$STATE" || exit 99
        "$@" -- sh -c 'while head -c 100000 /dev/zero >>filler 2>/dev/null; do :; done; sleep 60'
        echo code=$? free=$(stat -f -c '%a*%S/1048576' "$STATE")
        "$@" merge --all --include-risky; echo merged=$?
    """
    before = ("env", f"STATE={state}", "unshare", "-rm", "sh", "-c", script, "sh")
    done = agent_dev(before=before)
    said = text_of(done)
    assert "MiB are left on the disk of" in said, said
    assert "code=143" in said or "code=137" in said, said
    assert "merged=0" in said, said
    assert (agent_dev.repo / "filler").stat().st_size > 1 << 20


def test_a_file_ends_at_its_limit_and_this_is_said(agent_dev: AgentDev) -> None:
    done = agent_dev("--limit", "file-size=1M", "--", "dd", "if=/dev/zero", "of=large", "bs=65536", "count=64")
    assert done.returncode == 153
    assert "ended: the limit file-size=1M was reached" in done.stderr


def test_a_run_ends_at_its_time_and_this_is_said(agent_dev: AgentDev) -> None:
    done = agent_dev("--limit", "time=1", "--", "sleep", "600")
    assert done.returncode == 143
    assert done.stderr == "agent-dev: ended: the limit time=1s was reached\n"


def test_a_profile_limits_and_a_flag_wins(agent_dev: AgentDev, tmp_path: Path) -> None:
    profile = tmp_path / "small.yaml"
    profile.write_text("about: Small.\ncommand: sh\nlimits:\n  open-files: 77\n  time: 1h\n")
    words = ["--profile", str(profile), "--limit", "time=2h"]
    rows = {tuple(row.split()[:2]) for row in agent_dev(*words, "show", "small").stdout.splitlines() if row.startswith("limit")}
    assert rows == {("limit", "open-files=77"), ("limit", "time=2h")}
    assert agent_dev("--profile", profile, "small", "-c", "ulimit -n").stdout == "77\n"


@pytest.mark.parametrize(("word", "said"), [("memroy=1G", "did you mean memory?"), ("memory=lots", "no number with a unit")])
def test_a_limit_that_is_none_is_a_usage_error(agent_dev: AgentDev, word: str, said: str) -> None:
    done = agent_dev("--limit", word, "true")
    assert done.returncode == 2
    assert said in done.stderr


@row("leave a core dump in the repository", "no process inside dumps: RLIMIT_CORE is 0, for good")
def test_c25_a_crash_leaves_no_core_dump(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "ulimit -c unlimited 2>/dev/null; ulimit -Hc; kill -SEGV $$")
    assert done.stdout == "0\n"
    assert done.returncode == 139
    assert agent_dev.sessions() == []
