"""CONTAINMENT C: processes, the kernel, resources."""

import errno
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_dev.sandbox import seccomp
from agent_dev.sandbox.plan import ORDINARY
from tests.containment.rows import row
from tests.containment.world import World
from tests.harness.program import PROGRAM, PYTHON, AgentDev, wait_until
from tests.harness.program import processes as processes_with

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
    root = os.getuid() == 0  # its /proc/sys is covered, and nobody gets one that is not
    assert kernel["nested_sandbox"] == [0, 0, 1 if root else 0]
    assert forbidden["nested_sandbox"] == [1, 1, 1]
    verdicts = {name: rule.verdict & 0xFFFF for rule in seccomp.NESTED if not rule.checks for name in rule.calls}
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
    # It is watched from its first ms on, but a busy machine may stop who watches for longer than 64 MiB take.
    script = """
        { for _ in $(seq 1500); do ls "$STATE"/agent-dev/sessions/*/base/content && break; sleep 0.02; done; echo go; } 2>&1 |
        "$@" -- sh -c 'until read go && test $go = go; do :; done
            while head -c 100000 /dev/zero >>filler 2>/dev/null; do :; done; sleep 30'
        echo code=$? free=$(stat -f -c '%a*%S/1048576' "$STATE")
        "$@" merge --all --include-risky; echo merged=$?
    """
    said = on_a_small_disk(agent_dev, script)
    assert "MiB are left on the disk of" in said, said
    assert "code=143" in said or "code=137" in said, said
    assert "merged=0" in said, said
    assert (agent_dev.repo / "filler").stat().st_size > 1 << 20


def on_a_small_disk(agent_dev: AgentDev, script: str, *before: str) -> str:
    """Run a script with the program as its words, where the disk of the state directory has 64 MiB; return what was said."""
    state = agent_dev.state.parent
    state.mkdir(exist_ok=True)
    script = f'mount -t tmpfs -o size=64m tmpfs "$STATE" || exit 99\n{script}'
    return text_of(agent_dev(before=("env", f"STATE={state}", "unshare", "-rm", "sh", "-c", script, "sh", *before)))


# A launcher that the machine lets go on only when the agent has filled most of the disk.
LATE = """
import glob, os, sys, time
from agent_dev import cli
from agent_dev.sandbox import sandbox_monitor as supervise
wait = supervise.Supervisor.is_over_within
def late(self, milliseconds):
    supervise.Supervisor.is_over_within = wait
    deadline = time.monotonic() + 30
    while not glob.glob(os.environ["STATE"] + "/agent-dev/sessions/*/roots/0/upper/full") and time.monotonic() < deadline:
        time.sleep(0.01)
    return wait(self, milliseconds)
supervise.Supervisor.is_over_within = late
sys.argv[:2] = []
sys.argv.insert(0, "agent-dev")
cli.main()
"""


def test_what_an_agent_wrote_before_the_launcher_looked_counts_too(agent_dev: AgentDev) -> None:
    script = """"$@" -- sh -c 'head -c 50000000 /dev/zero >filler; touch full; sleep 20'; echo code=$?"""
    said = on_a_small_disk(agent_dev, script, sys.executable, "-c", LATE)
    assert "MiB are left on the disk of" in said, said
    assert "code=143" in said or "code=137" in said, said


def test_a_file_ends_at_its_limit_and_this_is_said(agent_dev: AgentDev) -> None:
    done = agent_dev("--limit", "file-size=1M", "--", "dd", "if=/dev/zero", "of=large", "bs=65536", "count=64")
    assert done.returncode == 153
    assert "ended: the limit file-size=1M was reached" in done.stderr


def test_a_limit_of_files_leaves_what_the_sandbox_is_built_with_whole(agent_dev: AgentDev) -> None:
    done = agent_dev("--limit", "file-size=64K", "--env", f"LONG={'x' * 100_000}", "--", "sh", "-c", "echo ${#LONG}; ulimit -f")
    assert done.stdout == "100000\n128\n", done.stderr


def test_a_limit_that_what_the_sandbox_is_built_with_would_meet_is_refused(agent_dev: AgentDev) -> None:
    (agent_dev.home / ".terminfo/l").mkdir(parents=True)
    (agent_dev.home / ".terminfo/l/large").write_bytes(b"x" * 5000)
    done = agent_dev("--limit", "file-size=4K", "--", "true", env={"TERM": "large"})
    assert (done.returncode, done.stdout) == (125, "")
    assert "/l/large, of 5000 bytes; file-size is limited to 4096" in done.stderr


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


# Other processes, and rights


@pytest.fixture(scope="module")
def processes(shared: World, net: str) -> Iterator[dict[str, Any]]:
    """What came of everything that is tried against processes of the host and with rights, with each network."""
    canary = f"canary-{os.getpid()}"
    secret = shared.home / ".ssh/id_ed25519"
    with subprocess.Popen(["sleep", "600"], env={"SECRET": canary}) as victim:
        target = {"sections": ["processes"], "pid": victim.pid, "canary": canary, "secret": str(secret)}
        try:
            yield shared.tried(target, "--net", net, env={"AWS_SECRET_ACCESS_KEY": canary, "LEAKED": canary})
            assert victim.poll() is None
        finally:
            victim.kill()


@row("signal a process of the host", "a pid namespace of its own: ESRCH; Landlock's scope besides")
def test_c01_processes_of_the_host_are_not_signalled(processes: dict[str, Any]) -> None:
    assert processes["signalled"] == "ESRCH"


@row("read the command lines and environments of the host's processes", "`/proc` shows the sandbox's own alone")
def test_c02_processes_of_the_host_are_not_seen(processes: dict[str, Any]) -> None:
    assert [place for place in processes["of_the_host"] if not place.endswith("environ")] == []


@row("trace a process of the host, read its memory or its root", "it does not exist inside: ESRCH, ENOENT")
def test_c03_processes_of_the_host_are_not_traced(processes: dict[str, Any]) -> None:
    assert processes["traced"] == "ESRCH"
    assert processes["memory_of_the_host"] == "ENOENT"
    assert processes["through_the_first"] == [False, False]


@row("read your environment from what started the sandbox", "bubblewrap starts with an empty one, its arguments by a descriptor")
def test_c04_no_environment_inside_holds_a_secret(processes: dict[str, Any]) -> None:
    assert [place for place in processes["of_the_host"] if place.endswith("environ")] == []


@row("gain rights by set-uid programs, sudo, file capabilities", "no-new-privileges, nosuid everywhere, no capabilities")
def test_c06_no_program_gives_rights(processes: dict[str, Any]) -> None:
    rights, _ = processes["status"]
    assert rights["NoNewPrivs"] == 1
    assert rights["CapEff"] == rights["CapPrm"] == rights["CapAmb"] == 0


@row("use the rights of root when root started it", "an ordinary user in a user namespace with one id; no capabilities")
def test_c07_root_has_no_rights_inside(processes: dict[str, Any]) -> None:
    rights, uid_map = processes["status"]
    assert rights["CapBnd"] == rights["CapInh"] == 0
    assert [uid_map[0], uid_map[2]] == [str(os.getuid() or ORDINARY), "1"]


@row("make a device node", "no CAP_MKNOD, nodev everywhere: EPERM")
def test_c10_no_device_can_be_made(processes: dict[str, Any]) -> None:
    assert processes["device"] == {"block": "EPERM", "character": "EPERM"}


@row("overwrite the program that holds the sandbox by `/proc/1/exe`", "it is read-only and running: refused")
def test_c12_the_helper_is_not_overwritten(processes: dict[str, Any]) -> None:
    assert set(processes["helper"]) <= {"EROFS", "ETXTBSY", "EACCES", "ENOENT"}


@row("run although the sandbox cannot be made", "it fails closed: 125, and the agent is never started")
def test_c20_without_bubblewrap_nothing_runs(agent_dev: AgentDev, tmp_path: Path) -> None:
    for program in ("/no/such/bwrap", "/bin/false"):
        done = agent_dev("--", "touch", agent_dev.repo / "ran", env={"AGENT_DEV_BWRAP": program})
        assert done.returncode == 125
    assert not (agent_dev.repo / "ran").exists()
    assert agent_dev.sessions(everywhere=True) == []


@row("switch the sandbox off from inside", "filter, rights and namespaces cannot be given back; nothing inside is asked")
def test_c21_there_is_no_off_switch_inside(processes: dict[str, Any]) -> None:
    rights, _ = processes["status"]
    assert rights["Seccomp"] == 2
    assert rights["NoNewPrivs"] == 1


@row("plant for cron, at, systemd, udev, login", "none of these places can be written: EROFS or ENOENT")
def test_c26_nothing_is_planted_to_be_started_later(processes: dict[str, Any]) -> None:
    assert set(processes["later"].values()) <= {"EROFS", "ENOENT", "ENOTDIR"}


@row("end the launcher and its pipeline by `kill(0)`, `kill(-1)`", "a process group and a pid namespace of its own")
def test_c28_a_signal_to_everybody_reaches_nobody_outside(agent_dev: AgentDev) -> None:
    for signalled, code in {"0": 137, "-1": 7}.items():
        script = f'{{ "$0" -- sh -c "kill -9 {signalled} 2>/dev/null; exit 7"; echo first=$?; }} | cat'
        done = subprocess.run(
            ["sh", "-c", script, str(PROGRAM)], env=agent_dev.env, cwd=agent_dev.repo, capture_output=True, text=True, check=False
        )
        assert done.stdout == f"first={code}\n", done.stderr


@row("go on when the launcher was killed in its first milliseconds", "a keeper between them: each dies with its parent")
def test_c29_no_agent_outlives_a_launcher_that_was_killed_early(agent_dev: AgentDev) -> None:
    seed = time.time_ns() & 0xFFFFFFFF
    chance = random.Random(seed)  # noqa: S311  (no secret)
    marker = f"7{os.getpid()}.{seed}"
    for _ in range(int(os.environ.get("AGENT_DEV_TEST_KILLS", "15"))):
        with agent_dev.started("--", "sleep", marker) as process:
            time.sleep(chance.uniform(0.005, 0.09))  # the moment of the kill is what is tried
            process.kill()
            process.wait()
        wait_until(lambda: not processes_with(marker), f"the agent ends (seed {seed})", patience=30)
