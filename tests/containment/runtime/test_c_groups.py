"""CONTAINMENT C: control groups mounted by an agent in nested namespaces."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_dev.linux import cgroups
from tests.conftest import lay_out_home, lay_out_repository
from tests.containment.rows import row
from tests.harness.program import PYTHON, AgentDev, wait_until
from tests.harness.users import NOBODY, make_dumpable, ordinary_users_directory

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


# Mount every hierarchy, try to raise each limit and to leave each group; print how many more processes can be started.
RAISE = """if True:
    import glob, os, subprocess, sys
    rows = [line.rstrip().split(":", 2)[1] for line in open("/proc/self/cgroup")]
    for number, which in enumerate(rows):
        os.mkdir(f"/tmp/{number}")
        words = [["-t", "cgroup2"]] if not which else [["-t", "cgroup", "-o", f"none,{which}"], ["-t", "cgroup", "-o", which]]
        any(subprocess.run(["mount", *each, "none", f"/tmp/{number}"], stderr=-3).returncode == 0 for each in words)
    mounted = sum(os.path.ismount(f"/tmp/{number}") for number in range(len(rows)))
    for name in ("pids.max", "memory.max", "memory.high", "memory.limit_in_bytes", "cgroup.procs", "cgroup.subtree_control"):
        for path in glob.glob(f"/tmp/**/{name}", recursive=True):
            for text in ("0", "+pids +memory", "-1", "max"):
                try:
                    with open(path, "w") as file: file.write(text)
                except OSError: pass
    started = 0
    try:
        while started < 300:
            if os.fork() == 0: os.execvp("sleep", ["sleep", "600"])
            started += 1
    except OSError: pass
    print("mounted", mounted, "started", started, flush=True)
    input()
    for path in glob.glob("/tmp/**/cgroup.kill", recursive=True):
        try:
            with open(path, "w") as file: file.write("1")
        except OSError: pass
    print("not killed", flush=True)
"""
PROCESSES, MEMORY = 60, 300 << 20
_IGNORED = shutil.ignore_patterns(".*", "tests", "docs", "benchmarks", "packaging", "__pycache__")


@pytest.mark.only_root
@pytest.mark.parametrize("controllers", [("",), ("", "pids", "memory")], ids=["version 2", "both versions"])
def test_an_agent_in_a_delegated_group_raises_no_limit(bystander: subprocess.Popen[bytes], controllers: tuple[str, ...]) -> None:
    """Run the program as an ordinary user to whom root delegated control groups, as systemd delegates those of terminals."""
    places = _delegate(controllers)
    try:
        for place in places.values():
            (place / "cgroup.procs").write_text(str(bystander.pid))
        with ordinary_users_directory() as folder, _started_as_nobody(folder, places) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            words = process.stdout.readline().split()
            assert words[:1] == ["mounted"], process.communicate(timeout=60)
            assert int(words[1]) >= 1
            assert 10 < int(words[3]) < PROCESSES
            for name, file, value in (("pids", "pids.max", PROCESSES), ("memory", "memory.limit_in_bytes", MEMORY)):
                for limiting in places[name].glob("agent-dev-2*") if name in places else ():
                    assert (limiting / file).read_text() == f"{value}\n"
                    (inner,) = limiting.glob("agent-dev-in-*")
                    assert (limiting / "cgroup.procs").read_text() == ""
                    assert len((inner / "cgroup.procs").read_text().split()) > 10
            output, errors = process.communicate("\n", timeout=60)
            assert (output, process.returncode) == ("", 137), errors  # the sandbox killed itself; the launcher reports it
        assert bystander.poll() is None
    finally:
        bystander.send_signal(signal.SIGKILL)
        bystander.wait()
        for place in places.values():
            wait_until(partial(_is_removed, place), "all of it has ended")


def _delegate(controllers: tuple[str, ...]) -> dict[str, Path]:
    """Create a group of an ordinary user in some hierarchies; return them."""
    groups, places = cgroups.groups_of("self"), {}
    for name in controllers:
        if name not in groups:
            continue  # a machine without version 1
        places[name] = Path(groups[name], f"agent-dev-test-{os.getpid()}")
        places[name].mkdir()
        for path in (places[name], *places[name].iterdir()):
            os.chown(path, NOBODY, NOBODY)
    return places


@contextmanager
def _started_as_nobody(folder: Path, places: dict[str, Path]) -> Iterator[subprocess.Popen[str]]:
    """Yield the program with the attack, started by an ordinary user in control groups of the user."""
    code = folder / "code"
    shutil.copytree(Path(cgroups.__file__).parents[2], code, ignore=_IGNORED)
    shutil.copytree(Path(yaml.__file__).parent, code / "yaml")
    home = lay_out_home(folder)
    program = AgentDev(home, lay_out_repository(home))
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)
    limits = ("--limit", f"processes={PROCESSES}", "--limit", f"memory={MEMORY >> 20}M")
    words = ("--no-merge", *limits, "--", "unshare", "-UrmC", PYTHON, "-I", "-c", RAISE)

    def enter() -> None:
        for place in places.values():
            (place / "cgroup.procs").write_text("0")
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        make_dumpable()

    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    env = program.environment({"PYTHONPATH": str(code)})
    with subprocess.Popen(
        [PYTHON, "-P", "-m", "agent_dev", *words],
        cwd=program.repo,
        env=env,
        preexec_fn=enter,  # noqa: PLW1509  (no other thread runs)
        text=True,
        **streams,
    ) as process:
        yield process
        process.kill()
