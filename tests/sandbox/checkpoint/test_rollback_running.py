"""Rollbacks of a running session are exact after any changes of the agent, and one killed at any point can be repeated."""

import random
import sys

import pytest

from tests.harness.program import PYTHON, AgentDev
from tests.harness.scale import repeat, seeded_random
from tests.sandbox.sandbox.scripted_agent import checkpoint, obedient_agent, reported, shown

ROUNDS = repeat(6)
NAMES = ("a", "b", "sub", "sub/c", "sub/app.py", "kept", "kept/low", "kept/deep", "kept/deep/x", "README.md", "made/d")
SOCKET = f'{PYTHON} -c "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"'
# A rollback that is killed before its Nth durable file operation.
KILLED = """
import os, sys
from agent_dev.cli import main as cli
from agent_dev.fs import durable as disk
left = [{number}]
def end(_call, _words):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
disk.hook = end
sys.argv[:2] = []
sys.argv.insert(0, "agent-dev")
cli.main()
"""


@pytest.fixture
def rolls() -> random.Random:
    return seeded_random()


@pytest.fixture
def agent_dev(agent_dev: AgentDev) -> AgentDev:
    (agent_dev.repo / "kept" / "deep").mkdir(parents=True)
    for name in ("low", "deep/x", "deep/y"):
        (agent_dev.repo / "kept" / name).write_text(name)
    (agent_dev.repo / "kept/run").write_text("run")
    (agent_dev.repo / "kept/run").chmod(0o755)
    (agent_dev.repo / "kept/link").symlink_to("deep/y")
    return agent_dev


def mess(rolls: random.Random) -> str:
    """Return a script of random changes to a tree; a step that is impossible fails without ending the script."""
    steps = []
    for number in range(rolls.randrange(1, 9)):
        one, other, mode = rolls.choice(NAMES), rolls.choice(NAMES), rolls.choice((700, 711, 755, 2755, 4711, 1777, 744))
        step = (
            f"rm -f {one}; echo {number} >{one}",  # opening a FIFO would wait for a reader
            f"rm -rf {one}",
            f"rm -rf {one}; mkdir -p {one}; echo {number} >{one}/new",
            f"mkdir -p {one}",
            f"ln -sfn {other} {one}",
            f"ln {one} {other}",
            f"mv {one} {other}",
            f"cp -r --remove-destination {one} {other}",
            f"chmod {mode} {one}",
            f"rm -rf {one}; mkfifo {one}",
            f"rm -rf {one}; {SOCKET} {one}",
            f"setfattr -n user.note -v {number} {one}",
            f"setfattr -h -x user.note {one}",
            f"touch -d @{rolls.randrange(1 << 30)} {one}",
            f"truncate -s 2M {one}",
            f"test -f {one} && echo {number} >>{one}",
            "rm -rf *",
        )
        steps.append(f"timeout -k 1 5 sh -c '{rolls.choice(step[:-1] * 3 + step[-1:])}' 2>/dev/null")  # a FIFO may block
    return "; ".join(steps)


def names(agent_dev: AgentDev) -> list[str]:
    return sorted(path.name for path in agent_dev.repo.rglob("*") if ".git" not in path.parts)


def test_a_running_agent_sees_every_tree_again_after_a_rollback(agent_dev: AgentDev, rolls: random.Random) -> None:
    before = names(agent_dev)
    with obedient_agent(agent_dev) as process:
        seen = {checkpoint(agent_dev): shown(process)}
        for _ in range(ROUNDS):
            reported(process, mess(rolls))
            seen[checkpoint(agent_dev)] = shown(process)
            reported(process, mess(rolls))
            to = rolls.choice(list(seen))
            done = agent_dev("rollback", to)
            assert done.returncode == 0, done.stdout + done.stderr
            assert shown(process) == seen[to]
    assert names(agent_dev) == before


def test_a_rollback_killed_at_any_point_can_be_repeated(agent_dev: AgentDev, rolls: random.Random) -> None:
    with obedient_agent(agent_dev) as process:
        reported(process, mess(rolls))
        to, was = checkpoint(agent_dev), shown(process)
        kills = 0
        for round_ in range(ROUNDS):
            reported(process, mess(rolls) + "; rm -rf a; echo other >a")
            code = KILLED.format(number=rolls.randrange(1, 25) if round_ else 1)
            killer = (
                (sys.executable, "-c", code) if round_ % 2 == 0 else ("timeout", "-s", "KILL", f"{rolls.uniform(0.05, 0.6):.3f}")
            )
            kills += agent_dev("rollback", to, before=killer).returncode in (-9, 137)
            done = agent_dev("rollback", to)
            assert done.returncode == 0, done.stdout + done.stderr
            assert shown(process) == was
    assert kills


@pytest.mark.parametrize("is_launcher_killed", [False, True], ids=["its agent ends", "its launcher is killed"])
def test_a_killed_rollback_leaves_none_of_our_files(agent_dev: AgentDev, *, is_launcher_killed: bool) -> None:
    with obedient_agent(agent_dev) as process:
        reported(process, "echo one >kept/low; echo two >new")
        to = checkpoint(agent_dev)
        reported(process, "rm new; echo other >kept/low")
        code = KILLED.format(number=4)
        assert agent_dev("rollback", to, before=(sys.executable, "-c", code)).returncode == -9
        assert "./.agent-dev-rollback" in shown(process)
        if is_launcher_killed:
            process.kill()
            process.wait(timeout=30)
    assert agent_dev("merge", "--all", "--include-risky").returncode == 0
    assert not (agent_dev.repo / ".agent-dev-rollback").exists()
    assert (agent_dev.repo / "kept/low").read_text() == "other\n"


def test_two_concurrent_rollbacks_run_one_after_the_other(agent_dev: AgentDev) -> None:
    with obedient_agent(agent_dev) as process:
        seen = {}
        for number in range(3):
            reported(process, f"rm -rf many; mkdir many; for n in $(seq 40); do echo {number} >many/$n; done")
            seen[checkpoint(agent_dev)] = shown(process)
        reported(process, "rm -rf many")
        first, second, _ = seen
        with agent_dev.start("rollback", first) as one, agent_dev.start("rollback", second) as other:
            for done in (one, other):
                _, reported_by = done.communicate(timeout=60)
                assert done.returncode == 0, reported_by
        assert shown(process) in (seen[first], seen[second])
