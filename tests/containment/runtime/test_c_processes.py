"""CONTAINMENT C: processes, the kernel, resource limits."""

import errno
import os
import platform
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_dev.sandbox import seccomp
from agent_dev.sandbox.plan import INSIDE_UID
from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PROGRAM, PYTHON, AgentDev, wait_until
from tests.harness.program import processes as processes_with
from tests.harness.scale import repeat

HARMLESS = {"ioctl", "socket", "socketpair", "clone", "unshare", "execve", "execveat"}  # allowed or denied by their arguments
PLAIN = {call for rule in seccomp.BASE_RULES if not rule.checks for call in rule.calls}
COLUMN = {"x86_64": 0, "aarch64": 1}[platform.machine()]
CALLS = {name: seccomp.NUMBERS[name] for name in sorted(PLAIN) if seccomp.NUMBERS[name][COLUMN] >= 0}
EPERM = {"syslog", "open_by_handle_at"}


@pytest.fixture(scope="module")
def kernel(shared: Machine) -> dict[str, Any]:
    """Return the results of all attempts on the kernel."""
    return shared.run_probe({"sections": ["kernel"], "calls": CALLS, "key": "none", "families": {}})


@pytest.fixture(scope="module")
def forbidden(shared: Machine) -> dict[str, Any]:
    """Return the results of the same attempts with a profile that forbids nested sandboxes."""
    profile = shared.folder / "strict.yaml"
    profile.write_text("about: Strict.\ncommand: sh\nnested: false\n")
    calls = {name: seccomp.NUMBERS[name] for rule in seccomp.NO_NESTING_RULES if not rule.checks for name in rule.calls}
    target = {"sections": ["kernel"], "calls": calls, "key": "none", "families": {}}
    return shared.run_probe(target, "--profile", profile)


@row("make 32-bit or x32 system calls to bypass the filter", "calls of other architectures do not exist: ENOSYS")
def test_c14_system_calls_of_other_architectures_do_not_exist(kernel: dict[str, Any]) -> None:
    assert kernel["foreign_calls"] == {"getpid by int 0x80": "ENOSYS", "getpid of x32": "ENOSYS"}


@row(
    "io_uring, bpf, perf, userfaultfd, kexec, modules, quotas, swap, ports, the kernel log, files by handle",
    "the seccomp filter: ENOSYS, so that programs fall back, or EPERM",
)
def test_c27_unneeded_system_calls_do_not_exist(kernel: dict[str, Any]) -> None:
    assert kernel["system_calls"] == {name: "EPERM" if name in EPERM else "ENOSYS" for name in CALLS}


@row(
    "reach kernel code behind user namespaces and mounts",
    "a profile with `nested: false` forbids both; by default, agents and browsers may use them for their own sandboxes",
)
def test_c09_a_profile_can_forbid_namespaces_and_mounts(kernel: dict[str, Any], forbidden: dict[str, Any]) -> None:
    root = os.getuid() == 0  # /proc/sys is masked, so an unmasked /proc cannot be mounted
    assert kernel["nested_sandbox"] == [0, 0, 1 if root else 0]
    assert forbidden["nested_sandbox"] == [1, 1, 1]
    verdicts = {name: rule.verdict & 0xFFFF for rule in seccomp.NO_NESTING_RULES if not rule.checks for name in rule.calls}
    assert forbidden["system_calls"] == {name: errno.errorcode[number] for name, number in verdicts.items()}
    assert kernel["namespaces"] == {"clone": "done", "clone3": "EINVAL", "setns": "EBADF"}
    assert forbidden["namespaces"] == {"clone": "EPERM", "clone3": "ENOSYS", "setns": "EPERM"}


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
    "every tmpfs has a size limit; `--limit memory=…, processes=…` by a control group or, without one, for each process",
)
def test_c23_memory_and_processes_are_limited(agent_dev: AgentDev) -> None:
    filled = agent_dev("--limit", "tmp=2M", "--", PYTHON, "-I", "-c", FILL)
    assert [line.split()[1] for line in filled.stdout.splitlines()] == ["ENOSPC"] * 4
    grown = agent_dev("--limit", "memory=200M", "--", PYTHON, "-I", "-c", "x = bytearray(400 << 20); print('grown')")
    assert "grown" not in grown.stdout
    assert grown.returncode != 0
    forked = agent_dev("--limit", "processes=30", "--", "sh", "-c", "for i in $(seq 60); do sleep 20 & done; wait")
    assert "fork" in text_of(forked)


@row(
    "fill the disk through the repository or the agent home",
    "free space is monitored, and the agent is stopped while a merge still fits; `--limit file-size=…`, `free-disk=…`",
)
def test_c24_the_agent_is_stopped_before_a_full_disk_prevents_the_merge(agent_dev: AgentDev) -> None:
    # Free space is monitored from the start, but a busy machine may not schedule the launcher until 64 MiB are written.
    script = """
        { for _ in $(seq 1500); do ls "$STATE"/agent-dev/sessions/*/base/content && break; sleep 0.02; done; echo go; } 2>&1 |
        "$@" -- sh -c 'until read go && test $go = go; do :; done
            while head -c 100000 /dev/zero >>filler 2>/dev/null; do :; done; sleep 30'
        echo code=$? free=$(stat -f -c '%a*%S/1048576' "$STATE")
        "$@" merge --all --include-risky; echo merged=$?
    """
    output = on_a_small_disk(agent_dev, script)
    assert "MiB free on the disk of" in output, output
    assert "code=143" in output or "code=137" in output, output
    assert "merged=0" in output, output
    assert (agent_dev.repo / "filler").stat().st_size > 1 << 20


def on_a_small_disk(agent_dev: AgentDev, script: str, *before: str) -> str:
    """Run a script that gets the program as arguments, with the state directory on a disk of 64 MiB; return its output."""
    state = agent_dev.state.parent
    state.mkdir(exist_ok=True)
    script = f'mount -t tmpfs -o size=64m tmpfs "$STATE" || exit 99\n{script}'
    return text_of(agent_dev(before=("env", f"STATE={state}", "unshare", "-rm", "sh", "-c", script, "sh", *before)))


# A launcher whose first check is delayed until the agent has filled most of the disk.
LATE = """
import glob, os, sys, time
from agent_dev.cli import main as cli
from agent_dev.sandbox import sandbox_monitor
wait = sandbox_monitor.SandboxMonitor.has_ended_within
def late(self, milliseconds):
    sandbox_monitor.SandboxMonitor.has_ended_within = wait
    deadline = time.monotonic() + 30
    while not glob.glob(os.environ["STATE"] + "/agent-dev/sessions/*/roots/0/upper/full") and time.monotonic() < deadline:
        time.sleep(0.01)
    return wait(self, milliseconds)
sandbox_monitor.SandboxMonitor.has_ended_within = late
sys.argv[:2] = []
sys.argv.insert(0, "agent-dev")
cli.main()
"""


def test_data_written_before_the_launchers_first_check_counts_too(agent_dev: AgentDev) -> None:
    script = """"$@" -- sh -c 'head -c 50000000 /dev/zero >filler; touch full; sleep 20'; echo code=$?"""
    output = on_a_small_disk(agent_dev, script, sys.executable, "-c", LATE)
    assert "MiB free on the disk of" in output, output
    assert "code=143" in output or "code=137" in output, output


def test_a_file_stops_growing_at_its_limit_and_this_is_reported(agent_dev: AgentDev) -> None:
    done = agent_dev("--limit", "file-size=1M", "--", "dd", "if=/dev/zero", "of=large", "bs=65536", "count=64")
    assert done.returncode == 153
    assert "stopped: reached the limit file-size=1M" in done.stderr


def test_a_file_size_limit_does_not_prevent_the_sandbox_setup(agent_dev: AgentDev) -> None:
    done = agent_dev("--limit", "file-size=64K", "--env", f"LONG={'x' * 100_000}", "--", "sh", "-c", "echo ${#LONG}; ulimit -f")
    assert done.stdout == "100000\n128\n", done.stderr


def test_a_limit_too_small_for_the_sandbox_setup_is_refused(agent_dev: AgentDev) -> None:
    (agent_dev.home / ".terminfo/l").mkdir(parents=True)
    (agent_dev.home / ".terminfo/l/large").write_bytes(b"x" * 5000)
    done = agent_dev("--limit", "file-size=4K", "--", "true", env={"TERM": "large"})
    assert (done.returncode, done.stdout) == (125, "")
    assert "the limit file-size=4096 is below the 5000 bytes of" in done.stderr


def test_a_run_stops_at_its_time_limit_and_this_is_reported(agent_dev: AgentDev) -> None:
    done = agent_dev("--limit", "time=1", "--", "sleep", "600")
    assert done.returncode == 143
    assert done.stderr == "agent-dev: stopped: reached the limit time=1s\n"


def test_a_flag_overrides_the_limit_of_a_profile(agent_dev: AgentDev, tmp_path: Path) -> None:
    profile = tmp_path / "small.yaml"
    profile.write_text("about: Small.\ncommand: sh\nlimits:\n  open-files: 77\n  time: 1h\n")
    argv = ["--profile", str(profile), "--limit", "time=2h"]
    rows = {tuple(row.split()[:2]) for row in agent_dev(*argv, "show", "small").stdout.splitlines() if row.startswith("limit")}
    assert rows == {("limit", "open-files=77"), ("limit", "time=2h")}
    assert agent_dev("--profile", profile, "small", "-c", "ulimit -n").stdout == "77\n"


@pytest.mark.parametrize(
    ("word", "printed"), [("memroy=1G", "did you mean memory?"), ("memory=lots", "not a number with a unit")]
)
def test_an_invalid_limit_is_a_usage_error(agent_dev: AgentDev, word: str, printed: str) -> None:
    done = agent_dev("--limit", word, "--", "true")
    assert done.returncode == 2
    assert printed in done.stderr


@row("leave a core dump in the repository", "RLIMIT_CORE is 0 for all processes, permanently")
def test_c25_a_crash_leaves_no_core_dump(agent_dev: AgentDev) -> None:
    done = agent_dev("--", "sh", "-c", "ulimit -c unlimited 2>/dev/null; ulimit -Hc; kill -SEGV $$")
    assert done.stdout == "0\n"
    assert done.returncode == 139
    assert agent_dev.sessions() == []


# Other processes, and privileges


@pytest.fixture(scope="module")
def processes(shared: Machine, net: str) -> Iterator[dict[str, Any]]:
    """Yield the results of all attempts on processes and privileges, for each network."""
    canary = f"canary-{os.getpid()}"
    secret = shared.home / ".ssh/id_ed25519"
    with subprocess.Popen(["sleep", "600"], env={"SECRET": canary}) as victim:
        target = {"sections": ["processes"], "pid": victim.pid, "canary": canary, "secret": str(secret)}
        try:
            yield shared.run_probe(target, "--net", net, env={"AWS_SECRET_ACCESS_KEY": canary, "LEAKED": canary})
            assert victim.poll() is None
        finally:
            victim.kill()


@row("signal a process of the host", "a PID namespace: ESRCH; and Landlock's scope")
def test_c01_processes_of_the_host_are_not_signalled(processes: dict[str, Any]) -> None:
    assert processes["signalled"] == "ESRCH"


@row("read the command lines and environments of the host's processes", "`/proc` shows only the sandbox's processes")
def test_c02_processes_of_the_host_are_not_visible(processes: dict[str, Any]) -> None:
    assert [place for place in processes["of_the_host"] if not place.endswith("environ")] == []


@row("trace a process of the host, read its memory or its root", "it does not exist inside: ESRCH, ENOENT")
def test_c03_processes_of_the_host_are_not_traced(processes: dict[str, Any]) -> None:
    assert processes["traced"] == "ESRCH"
    assert processes["memory_of_the_host"] == "ENOENT"
    assert processes["through_the_first"] == [False, False]


@row(
    "read your environment from the processes that started the sandbox",
    "bubblewrap starts with an empty environment; its arguments come through a descriptor",
)
def test_c04_no_environment_inside_contains_a_secret(processes: dict[str, Any]) -> None:
    assert [place for place in processes["of_the_host"] if place.endswith("environ")] == []


@row("gain privileges by set-uid programs, sudo, file capabilities", "no-new-privileges, nosuid on every mount, no capabilities")
def test_c06_no_program_grants_privileges(processes: dict[str, Any]) -> None:
    rights, _ = processes["status"]
    assert rights["NoNewPrivs"] == 1
    assert rights["CapEff"] == rights["CapPrm"] == rights["CapAmb"] == 0


@row("use root's privileges when root started it", "an ordinary user in a user namespace with one id; no capabilities")
def test_c07_root_has_no_privileges_inside(processes: dict[str, Any]) -> None:
    rights, uid_map = processes["status"]
    assert rights["CapBnd"] == rights["CapInh"] == 0
    assert [uid_map[0], uid_map[2]] == [str(os.getuid() or INSIDE_UID), "1"]


@row("create a device node", "no CAP_MKNOD, nodev on every mount: EPERM")
def test_c10_no_device_node_can_be_created(processes: dict[str, Any]) -> None:
    assert processes["device"] == {"block": "EPERM", "character": "EPERM"}


@row("overwrite the program that runs the sandbox by `/proc/1/exe`", "the program is read-only and in use: refused")
def test_c12_the_sandbox_program_is_not_overwritten(processes: dict[str, Any]) -> None:
    assert set(processes["helper"]) <= {"EROFS", "ETXTBSY", "EACCES", "ENOENT"}


@row("change the mode of that program by `/proc/1/exe`, if the user owns it", "it is bound read-only: EROFS")
def test_c40_the_sandbox_program_keeps_its_mode(shared: Machine, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    shutil.copy(os.environ.get("AGENT_DEV_BWRAP") or shutil.which("bwrap") or "", program)
    program.chmod(0o755)
    before = program.stat()
    found = shared.run_probe({"sections": ["program"]}, env={"AGENT_DEV_BWRAP": str(program)})
    assert found["helper_attributes"] == dict.fromkeys(("mode", "time", "attribute"), "EROFS")
    assert (program.stat().st_mode, program.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


@row("run although the sandbox cannot be created", "it fails closed: exit code 125, and the agent is never started")
def test_c20_without_bubblewrap_nothing_runs(agent_dev: AgentDev, tmp_path: Path) -> None:
    for program in ("/no/such/bwrap", "/bin/false"):
        done = agent_dev("--", "touch", agent_dev.repo / "ran", env={"AGENT_DEV_BWRAP": program})
        assert done.returncode == 125
    assert not (agent_dev.repo / "ran").exists()
    assert agent_dev.sessions(everywhere=True) == []


@row(
    "switch the sandbox off from inside",
    "filters, dropped privileges and namespaces cannot be undone, and nothing inside controls them",
)
def test_c21_the_sandbox_cannot_be_switched_off_from_inside(processes: dict[str, Any]) -> None:
    rights, _ = processes["status"]
    assert rights["Seccomp"] == 2
    assert rights["NoNewPrivs"] == 1


@row("plant files for cron, at, systemd, udev, login", "none of these directories can be written: EROFS or ENOENT")
def test_c26_nothing_can_be_planted_that_starts_later(processes: dict[str, Any]) -> None:
    assert set(processes["later"].values()) <= {"EROFS", "ENOENT", "ENOTDIR"}


@row("kill the launcher and its pipeline by `kill(0)`, `kill(-1)`", "a process group and a PID namespace of its own")
def test_c28_a_signal_to_all_processes_reaches_none_outside(agent_dev: AgentDev) -> None:
    for signalled, code in {"0": 137, "-1": 7}.items():
        script = f'{{ "$0" -- sh -c "kill -9 {signalled} 2>/dev/null; exit 7"; echo first=$?; }} | cat'
        done = subprocess.run(
            ["sh", "-c", script, str(PROGRAM)], env=agent_dev.env, cwd=agent_dev.repo, capture_output=True, text=True, check=False
        )
        assert done.stdout == f"first={code}\n", done.stderr


@row(
    "continue after the launcher was killed in its first milliseconds",
    "the setup process and bubblewrap are killed with the launcher",
)
def test_c29_no_agent_outlives_a_launcher_that_was_killed_early(agent_dev: AgentDev) -> None:
    seed = time.time_ns() & 0xFFFFFFFF
    chance = random.Random(seed)  # noqa: S311  (not security relevant)
    marker = f"7{os.getpid()}.{seed}"
    for _ in range(repeat(15)):
        with agent_dev.start("--", "sleep", marker) as process:
            time.sleep(chance.uniform(0.005, 0.09))  # kill at a random moment
            process.kill()
            process.wait()
        wait_until(lambda: not processes_with(marker), f"the agent ends (seed {seed})", patience=30)
