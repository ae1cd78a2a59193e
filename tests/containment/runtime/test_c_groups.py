"""CONTAINMENT C: control groups mounted by an agent in nested namespaces."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.linux import cgroups
from tests.containment.rows import row
from tests.harness.program import PYTHON, AgentDev, wait_until

# Mount every cgroup hierarchy; print what is writable in it, or why it cannot be mounted.
ATTACK = """
n=0
cut -d: -f2 /proc/self/cgroup | while read -r which; do
    n=$((n + 1)); mkdir /tmp/$n
    if [ -z "$which" ]; then mount -t cgroup2 none /tmp/$n; else mount -t cgroup -o "none,$which" none /tmp/$n ||
        mount -t cgroup -o "$which" none /tmp/$n; fi 2>/dev/null && echo mounted
    find /tmp/$n -mindepth 1 -writable
    [ -e /tmp/$n/cgroup.kill ] && echo 1 >/tmp/$n/cgroup.kill
    [ -e /tmp/$n/freezer.state ] && echo FROZEN >/tmp/$n/freezer.state
    mkdir /tmp/$n/own && echo made
done 2>/dev/null
echo done
"""
NOT_THERE = "no namespace"
WORDS = ("sh", "-c", f'unshare -UrmC sh -c "$0" || echo {NOT_THERE}', ATTACK)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process in the same control groups as the launcher."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@row(
    "kill, freeze or limit the launcher and others through control groups mounted in a nested namespace",
    "the sandbox has its own control groups, of both versions; where that is impossible, no cgroup namespace can be created",
)
def test_c30_only_its_own_control_group_can_be_mounted(agent_dev: AgentDev, bystander: subprocess.Popen[bytes]) -> None:
    done = agent_dev("--no-merge", "--", *WORDS)
    assert done.returncode == 0, done.stderr
    output = done.stdout.split()
    assert "mounted" in output or NOT_THERE in done.stdout
    assert [line for line in output if line.startswith("/") or line == "made"] == []
    assert bystander.poll() is None


@pytest.mark.only_root
@pytest.mark.parametrize("has_room", [True, False])
def test_an_agent_in_a_delegated_group_reaches_only_its_own(
    tmp_path: Path, bystander: subprocess.Popen[bytes], *, has_room: bool
) -> None:
    """Run as an ordinary user with a delegated cgroup of version 2, with and without capacity for another cgroup."""
    place = Path(cgroups.groups_of("self")[""], f"agent-dev-test-{os.getpid()}")
    place.mkdir()
    try:
        for path in (place, *place.iterdir()):
            os.chown(path, 65534, 65534)
        if not has_room:
            (place / "cgroup.max.descendants").write_text("0")
        (place / "cgroup.procs").write_text(str(bystander.pid))
        output = _as_nobody(tmp_path, place)
        assert bystander.poll() is None
        assert Path(f"/proc/{bystander.pid}/stat").read_text().split()[2] == "S"
        assert "alone" in output or not has_room
        if has_room:
            assert f"{place}/agent-dev-in-test" in output  # the root of the hierarchy that it can mount
        else:
            assert NOT_THERE in output
            assert "alone" not in output
    finally:
        bystander.send_signal(signal.SIGKILL)
        bystander.wait()
        wait_until(lambda: _is_removed(place), "all of it has ended")


def _is_removed(place: Path) -> bool:
    cgroups.remove_tree(str(place))
    return not place.exists()


JOINED = """
import os, sys
from agent_dev.linux import cgroups as groups; from agent_dev.sandbox import seccomp
place, words = sys.argv[1], sys.argv[2:]
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
is_alone = groups.join_new("agent-dev-in-test")
print("alone" if is_alone else "shared", groups.groups_of("self")[""], flush=True)
fd = os.memfd_create("filter", 0)
os.write(fd, seccomp.refusal_filter(more=() if is_alone else seccomp.NO_CGROUPS_RULES)); os.lseek(fd, 0, 0)
os.execvp("bwrap", ["bwrap", "--bind", "/", "/", "--tmpfs", "/tmp", "--proc", "/proc", "--unshare-user", "--unshare-pid",
    "--unshare-cgroup", "--cap-drop", "ALL", "--seccomp", str(fd), "--", *words])
"""


def _as_nobody(folder: Path, place: Path) -> str:
    """Join control groups as the setup process does, as nobody, and attack from inside; return the output."""
    code = folder / "code"
    shutil.copytree(Path(cgroups.__file__).parents[1], code / "agent_dev")
    folder.chmod(0o755)

    def enter() -> None:
        (place / "cgroup.procs").write_text("0")

    argv = [PYTHON, "-c", JOINED, str(place), *WORDS]
    env = {**os.environ, "PYTHONPATH": str(code)}
    done = subprocess.run(argv, env=env, preexec_fn=enter, capture_output=True, text=True, check=False, cwd="/", timeout=60)
    return done.stdout + done.stderr
