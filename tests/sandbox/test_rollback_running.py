"""Rollbacks of a running session are exact: whatever the agent did in between, and killed anywhere they can be done again."""

import os
import random
import sys

import pytest

from tests.harness.program import AgentDev
from tests.sandbox.test_checkpoints import obedient_agent, shown, told

ROUNDS = int(os.environ.get("AGENT_DEV_ROLLBACK_ROUNDS", "6"))
NAMES = ("a", "b", "sub", "sub/c", "sub/app.py", "kept", "kept/low", "kept/deep", "kept/deep/x", "README.md", "made/d")
# A rollback that is killed before its N-th change of what it brings back.
KILLED = """
import os, sys
from agent_dev import cli
from agent_dev.host import disk
left = [{number}]
def end(_call, _words):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
disk.watcher = end
sys.argv[:2] = []
sys.argv.insert(0, "agent-dev")
cli.main()
"""


@pytest.fixture
def rolls() -> random.Random:
    seed = int(os.environ.get("AGENT_DEV_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"AGENT_DEV_TEST_SEED={seed}")  # noqa: T201  (shown when it fails)
    return random.Random(seed)  # noqa: S311  (no secret)


@pytest.fixture
def agent_dev(agent_dev: AgentDev) -> AgentDev:
    (agent_dev.repo / "kept" / "deep").mkdir(parents=True)
    for name in ("low", "deep/x", "deep/y"):
        (agent_dev.repo / "kept" / name).write_text(name)
    return agent_dev


def mess(rolls: random.Random) -> str:
    """Return what changes a tree somehow; a step that cannot be fails alone."""
    steps = []
    for number in range(rolls.randrange(1, 9)):
        one, other, mode = rolls.choice(NAMES), rolls.choice(NAMES), rolls.choice((600, 644, 755, 2755))
        step = (
            f"rm -f {one}; echo {number} >{one}",  # a FIFO would wait for a reader
            f"rm -rf {one}",
            f"rm -rf {one}; mkdir -p {one}; echo {number} >{one}/new",
            f"mkdir -p {one}",
            f"ln -sfn {other} {one}",
            f"ln {one} {other}",
            f"mv {one} {other}",
            f"cp -r --remove-destination {one} {other}",
            f"chmod {mode} {one}",
            f"rm -rf {one}; mkfifo {one}",
            f"setfattr -n user.note -v {number} {one}",
            f"touch -d @{rolls.randrange(1 << 30)} {one}",
            f"truncate -s 2M {one}",
            "rm -rf *",
        )
        steps.append(f"timeout -k 1 2 sh -c '{rolls.choice(step[:-1] * 3 + step[-1:])}' 2>/dev/null")  # a FIFO may wait
    return "; ".join(steps)


def checkpoint(agent_dev: AgentDev) -> str:
    done = agent_dev("checkpoint")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[1]


def test_a_running_agent_sees_again_any_tree_that_it_saw(agent_dev: AgentDev, rolls: random.Random) -> None:
    before = sorted(path.name for path in agent_dev.repo.rglob("*") if ".git" not in path.parts)
    with obedient_agent(agent_dev) as process:
        begun = shown(process)  # it runs
        seen = {checkpoint(agent_dev): begun}
        for _ in range(ROUNDS):
            told(process, mess(rolls))
            seen[checkpoint(agent_dev)] = shown(process)
            told(process, mess(rolls))
            to = rolls.choice(list(seen))
            done = agent_dev("rollback", to)
            assert done.returncode == 0, done.stdout + done.stderr
            assert shown(process) == seen[to]
    assert sorted(path.name for path in agent_dev.repo.rglob("*") if ".git" not in path.parts) == before


def test_killed_anywhere_it_can_be_done_again(agent_dev: AgentDev, rolls: random.Random) -> None:
    with obedient_agent(agent_dev) as process:
        told(process, mess(rolls))
        to, was = checkpoint(agent_dev), shown(process)
        kills = 0
        for round_ in range(ROUNDS):
            told(process, mess(rolls) + "; rm -rf a; echo other >a")
            code = KILLED.format(number=rolls.randrange(1, 25) if round_ else 1)
            kills += agent_dev("rollback", to, before=(sys.executable, "-c", code)).returncode == -9
            done = agent_dev("rollback", to)
            assert done.returncode == 0, done.stdout + done.stderr
            assert shown(process) == was
    assert kills
