"""CONTAINMENT C: the command policy. It is only a guard rail: the effects of commands that bypass it stay in the sandbox."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.containment.rows import RESIDUAL, row
from tests.containment.support.world import Machine
from tests.harness.program import PYTHON, supervisor_of, tree, wait_until
from tests.harness.scale import repeat
from tests.sandbox.policy.test_commands import ROUND

RULES = """\
guard:
  rules:
    - {name: no-rm, programs: [rm], decision: deny}
    - {name: no-touch, programs: [touch], decision: deny}
"""


@pytest.fixture
def guarded(world: Machine) -> Machine:
    """Return a machine with a policy that denies rm and touch."""
    folder = Path(world.program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("policy: guard\n")
    (folder / "policy.yaml").write_text(RULES)
    return world


# A child executes a path in shared memory while its parent rewrites it: the checked path may differ from the executed one.
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
    "rewrite a command's arguments between the check and the start",
    "the kernel offers no check without this race; the policy is a guard rail, and the command stays inside",
    RESIDUAL,
)
def test_c15_a_command_rewritten_after_the_check_stays_inside(guarded: Machine) -> None:
    before = tree(guarded.repo)
    code = RACE.replace("TRIES", str(repeat(100)))
    done = guarded.program("--no-merge", "--", PYTHON, "-I", "-c", code, timeout=120)
    assert done.stdout.strip() in ("passed", "held"), done.stderr
    assert tree(guarded.repo) == before


@row(
    "bypass a rule by a copy, a symlink, the loader, a file in memory, an interpreter, a shell builtin",
    "none of these is detected; the policy is a guard rail, and the changes stay in the session, for review",
    RESIDUAL,
)
def test_c16_six_ways_to_bypass_a_rule_work_and_stay_inside(guarded: Machine) -> None:
    before = tree(guarded.repo)
    steps = [f"({way}) >/dev/null 2>&1; test -e sub || echo {name}; git checkout -q sub" for name, way in ROUND.items()]
    done = guarded.program("--no-merge", "--", "bash", "-c", "\n".join(["rm -rf sub; echo $?", *steps]))
    assert done.stdout.split() == ["126", *ROUND], done.stderr
    assert tree(guarded.repo) == before


@row(
    "make an allowed command harmful by variables, functions and aliases of the shell",
    "the arguments do not show it; the policy is a guard rail, and the changes stay in the session, for review",
    RESIDUAL,
)
def test_c17_effects_of_a_manipulated_allowed_command_stay_inside(guarded: Machine) -> None:
    before = tree(guarded.repo)
    plant = 'printf "#!/bin/sh\\n: >README.md" >x; chmod +x x; echo 3 >>sub/app.py'
    script = f'{plant}; export GIT_EXTERNAL_DIFF=./x PATH="$PWD:$PATH"; git diff'
    assert guarded.program("--no-merge", "--", "sh", "-c", script).returncode == 0
    assert guarded.program.changes() == {"README.md": "edited", "sub/app.py": "edited", "x": "added"}
    assert tree(guarded.repo) == before


@row("find or kill the command supervisor", "it runs outside and is not visible; without it no further command starts")
def test_c18_the_supervisor_is_out_of_reach_and_needed_for_commands(guarded: Machine) -> None:
    script = "kill -9 -1; kill -9 1; ls -d /proc/[0-9]* | wc -l; echo ready; read go; /bin/true; echo code=$?"
    with guarded.program.start("--no-merge", "--", "bash", "-c", script) as process:
        assert process.stdout is not None
        seen = process.stdout.readline()
        assert int(seen) <= 5
        assert process.stdout.readline() == "ready\n"
        os.kill(wait_until(lambda: supervisor_of(process.pid), "what watches is there"), signal.SIGKILL)
        output, _ = process.communicate("\n", timeout=60)
    assert "code=0" not in output


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
    "install a seccomp listener in place of agent-dev's",
    "the kernel allows only one: EBUSY, and agent-dev's stays; it works if neither commands nor renames are supervised",
)
def test_c19_a_second_listener_is_refused_where_the_policy_listens(guarded: Machine) -> None:
    def listening(*options: str) -> Any:
        return json.loads(guarded.program("--no-merge", *options, "--", PYTHON, "-I", "-c", LISTENING).stdout)

    assert listening() == [False, "EBUSY"]
    off = Path(guarded.program.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    off.write_text('policy: "off"\ndirectory_renames: false\n')
    assert listening()[0]
