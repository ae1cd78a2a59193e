"""CONTAINMENT C: the policy over commands. It is a rail and no wall: what gets round it stays inside all the same."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.containment.rows import RESIDUAL, row
from tests.containment.world import World
from tests.harness.program import PYTHON, tree, wait_until, watcher
from tests.sandbox.test_commands import ROUND

RULES = """\
guard:
  rules:
    - {name: no-rm, programs: [rm], decision: deny}
    - {name: no-touch, programs: [touch], decision: deny}
"""


@pytest.fixture
def guarded(world: World) -> World:
    """A machine whose user lets no agent run rm and touch."""
    folder = Path(world.program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("policy: guard\n")
    (folder / "policy.yaml").write_text(RULES)
    return world


# A child executes a word in memory that its parent rewrites all the time: what is looked at need not be what is run.
RACE = """if True:
    import ctypes, mmap, os, sys
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.mmap(-1, 4096)
    place = ctypes.addressof(ctypes.c_char.from_buffer(page))
    for _ in range(TRIES):
        page[:16] = b"/bin/true\\0".ljust(16, b"\\0")
        child = os.fork()
        if child == 0:
            argv = (ctypes.c_char_p * 4)(None, b"-rf", b"sub", None)
            ctypes.cast(argv, ctypes.POINTER(ctypes.c_void_p))[0] = place
            libc.execve(ctypes.c_void_p(place), argv, None)
            os._exit(126)
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            page[:16] = b"/bin/rm\\0".ljust(16, b"\\0")
            page[:16] = b"/bin/true\\0".ljust(16, b"\\0")
        if not os.path.exists("sub"):
            break
    print("passed" if not os.path.exists("sub") else "held")
"""


@row(
    "rewrite a command's words between the look and the start",
    "the kernel offers no look without that gap: a rail, never the wall; what was run stays inside",
    RESIDUAL,
)
def test_c15_a_command_rewritten_after_the_look_stays_inside(guarded: World) -> None:
    before = tree(guarded.repo)
    code = RACE.replace("TRIES", os.environ.get("AGENT_DEV_TEST_RACES", "100"))
    done = guarded.program("--no-merge", "--", PYTHON, "-I", "-c", code, timeout=120)
    assert done.stdout.strip() in ("passed", "held"), done.stderr
    assert tree(guarded.repo) == before


@row(
    "get round a rule by a copy, a link, the loader, a file in memory, an interpreter, a builtin",
    "none of the six is caught: a rail, never the wall; what was done stays inside and is shown",
    RESIDUAL,
)
def test_c16_none_of_six_ways_round_a_rule_is_caught_and_all_end_at_the_wall(guarded: World) -> None:
    before = tree(guarded.repo)
    steps = [f"({way}) >/dev/null 2>&1; test -e sub || echo {name}; git checkout -q sub" for name, way in ROUND.items()]
    done = guarded.program("--no-merge", "--", "bash", "-c", "\n".join(["rm -rf sub; echo $?", *steps]))
    assert done.stdout.split() == ["126", *ROUND], done.stderr
    assert tree(guarded.repo) == before


@row(
    "have an allowed command do harm by variables, functions and aliases of the shell",
    "words alone do not tell: a rail, never the wall; what was done stays inside and is shown",
    RESIDUAL,
)
def test_c17_what_a_poisoned_allowed_command_does_stays_inside(guarded: World) -> None:
    before = tree(guarded.repo)
    plant = 'printf "#!/bin/sh\\n: >README.md" >x; chmod +x x; echo 3 >>sub/app.py'
    script = f'{plant}; export GIT_EXTERNAL_DIFF=./x PATH="$PWD:$PATH"; git diff'
    assert guarded.program("--no-merge", "--", "sh", "-c", script).returncode == 0
    assert guarded.program.changes() == {"README.md": "edited", "sub/app.py": "edited", "x": "added"}
    assert tree(guarded.repo) == before


@row("find or end what watches the commands", "it runs outside and cannot be seen; when it is gone, nothing starts any more")
def test_c18_what_watches_is_out_of_reach_and_without_it_nothing_starts(guarded: World) -> None:
    script = "kill -9 -1; kill -9 1; ls -d /proc/[0-9]* | wc -l; echo ready; read go; /bin/true; echo code=$?"
    with guarded.program.started("--no-merge", "--", "bash", "-c", script) as process:
        assert process.stdout is not None
        seen = process.stdout.readline()
        assert int(seen) <= 5
        assert process.stdout.readline() == "ready\n"
        os.kill(wait_until(lambda: watcher(process.pid), "what watches is there"), signal.SIGKILL)
        said, _ = process.communicate("\n", timeout=60)
    assert "code=0" not in said


LISTENING = """if True:
    import ctypes, errno, json
    libc = ctypes.CDLL(None, use_errno=True)
    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
    allow = (ctypes.c_ubyte * 8)(0x06, 0, 0, 0, 0, 0, 0xFF, 0x7F)  # RET ALLOW
    filter = Filter(1, ctypes.addressof(allow))
    libc.prctl(38, 1, 0, 0, 0)
    number = {"x86_64": 317, "aarch64": 277}[__import__("os").uname().machine]
    got = libc.syscall(number, 1, 8, ctypes.byref(filter))
    print(json.dumps([got >= 0, errno.errorcode.get(ctypes.get_errno(), "")]))
"""


@row(
    "put a watcher of the agent's own in the place of ours",
    "the kernel has room for one: EBUSY, and ours stays; without a policy it works",
)
def test_c19_a_second_listener_is_refused_where_the_policy_listens(guarded: World) -> None:
    def listening(*options: str) -> Any:
        return json.loads(guarded.program("--no-merge", *options, "--", PYTHON, "-I", "-c", LISTENING).stdout)

    assert listening() == [False, "EBUSY"]
    off = Path(guarded.program.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    off.write_text('policy: "off"\n')
    assert listening()[0]
