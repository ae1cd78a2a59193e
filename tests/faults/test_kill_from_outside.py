"""Kill the real program by strace at its N-th system call of each kind that changes something."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import lay_out_cache
from tests.faults.test_kill_everywhere import STRIDE, World, merged, undone, world
from tests.harness.ended_session import ENVIRON

REPOSITORY = Path(__file__).parents[2]
CALLS = [
    "renameat2",
    "rename",
    "renameat",
    "unlinkat",
    "unlink",
    "rmdir",
    "mkdir",
    "mkdirat",
    "mknodat",
    "symlinkat",
    "write",
    "ftruncate",
    "fsync",
    "syncfs",
    "fchmod",
    "fchmodat",
    "chmod",
    "utimensat",
    "fsetxattr",
    "fremovexattr",
]
OF_EVERY_ACTION = ("renameat2", "unlinkat", "write", "fsync", "syncfs", "utimensat")

ACTIONS: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "merge": (lambda _: None, ("merge", "--all", "--include-risky", "--yes-delete-many")),
    "undo": (merged, ("undo",)),
    "redo": (undone, ("redo",)),
}


def run(one: World, words: tuple[str, ...], before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run agent-dev with these arguments in the world's root; `before`: a command that runs it."""
    home = one.ended.real.parent.with_suffix(".home")
    if not home.exists():
        home.mkdir()
        lay_out_cache(home / ".cache")
    env = {
        **ENVIRON,
        "HOME": str(home),
        "AGENT_DEV_STATE": one.ended.store.path,
        "PYTHONPATH": str(REPOSITORY),
        "LANG": "C.UTF-8",
    }
    return subprocess.run(
        [*before, sys.executable, "-m", "agent_dev", *words],
        cwd=one.ended.real,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_command_killed_at_any_system_call_leaves_state_before_or_after(
    action: str, call: str, record_property: Callable[[str, object], None]
) -> None:
    prepare, words = ACTIONS[action]
    number, points, is_killed = 1, 0, True
    while is_killed:
        with world() as one:
            prepare(one)
            inject = ("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")
            done = run(one, words, ("strace", "-f", "-qq", "-o", os.devnull, *inject))
            is_killed = done.returncode in (-9, 137)
            assert is_killed or done.returncode == 0, (done.returncode, done.stderr)
            recovered = run(one, ("merges",))
            assert recovered.returncode == 0, recovered.stderr
            side = one.expect_rest()
            if not is_killed:
                assert (side == "before") == (action == "undo")
        points += is_killed
        number += STRIDE
    record_property("points", points)
    assert points or call not in OF_EVERY_ACTION, "nothing was killed"
