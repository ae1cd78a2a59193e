"""`python -m tests.containment.mutations [NAME…]`: each protection is taken out in turn, and a test of containment must fail.

The program is changed as data while it runs (a row of the filter's table, a mount or an argument of the plan), never as text:
the tests start a program that runs this module first, by AGENT_DEV_TEST_PROGRAM, and AGENT_DEV_TEST_MUTATION says what goes.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agent_dev.fs import disk_space as room
from agent_dev.inside.control import protocol as door
from agent_dev.linux import syscalls as kernel
from agent_dev.sandbox import bwrap, launch, plan, seccomp
from agent_dev.sandbox import landlock as rules
from agent_dev.sandbox import landlock_probe as wall
from agent_dev.sandbox.plan import Bind, Cover, Mask, SandboxPlan, Tmpfs

FOLDER = Path(__file__).parent
PROGRAM = """#!{python}
import runpy, sys
sys.path.insert(0, {root!r})
runpy.run_module("tests.containment.mutations", run_name="__main__")
"""
_FILES = ("a_terminal", "b_sockets", "c_processes", "d_mounts", "wall", "door")
A, B, C, D, W, DOOR = (f"tests/containment/test_{name}.py" for name in _FILES)


def _built(change: Callable[[SandboxPlan], SandboxPlan]) -> Callable[[], None]:
    build = plan.build

    def apply() -> None:
        plan.build = lambda *parts: change(build(*parts))

    return apply


def _mounts(choose: Callable[[Any], Any]) -> Callable[[], None]:
    return _built(lambda made: made.but(mounts=tuple(filter(None, map(choose, made.mounts)))))


def _unmasked(mount: Any) -> Any:
    if isinstance(mount, Cover):
        return Bind(mount.target, mount.target)
    return None if isinstance(mount, Mask) else mount


def _instead(target: str) -> Callable[[], None]:
    """The host's own place instead of an empty one."""
    return _mounts(lambda mount: Bind(target, target, writable=True) if mount.target == target else mount)


def _without_words(*words: str) -> Callable[[], None]:
    arguments = bwrap.arguments

    def left(*given: Any) -> tuple[str | int, ...]:
        made = list(arguments(*given))
        at = next(n for n in range(len(made)) if tuple(made[n : n + len(words)]) == words)
        return tuple(made[:at] + made[at + len(words) :])

    return lambda: setattr(bwrap, "arguments", left)


def _nothing(module: Any, name: str, result: Any = None) -> Callable[[], None]:
    return lambda: setattr(module, name, lambda *_, **__: result)


def _without_rule(table: str, name: str) -> Callable[[], None]:
    return lambda: setattr(seccomp, table, tuple(rule for rule in getattr(seccomp, table) if rule.name != name))


def _no_second_wall() -> None:
    vars(wall)["add"] = lambda made: made


def _everything_of_the_environment() -> None:
    vars(plan)["allowed_env"] = lambda _, environ: tuple(environ.items())


# What is taken out → how, and the tests of which at least one must fail.
MUTATIONS: dict[str, tuple[Callable[[], None], str]] = {
    "the watch over disks": (_nothing(room.Room, "look", 0), f"{C} -k c24"),  # first: it takes half a minute
    "an ipc namespace": (_built(lambda made: made.but(unshare=tuple(n for n in made.unshare if n != "ipc"))), f"{B} -k b17"),
    "a network namespace": (_built(lambda made: made.but(unshare=tuple(n for n in made.unshare if n != "net"))), f"{B} -k b11"),
    "a /tmp of its own": (_instead("/tmp"), f"{B} -k b02"),
    "a /var/tmp of its own": (_instead("/var/tmp"), f"{B} -k b02"),
    "a size of /tmp": (_mounts(lambda m: m.but(size=1 << 40) if isinstance(m, Tmpfs) else m), f"{C} -k c23"),
    "masks": (_mounts(_unmasked), f"{D} -k d12"),
    "a root that is read-only": (_without_words("--remount-ro", "/"), f"{D} -k d10"),
    "an environment from a list": (_everything_of_the_environment, f"{D} -k d13"),
    "Landlock's scopes": (_nothing(kernel, "scope"), f"{B} -k b01"),
    "the second wall": (_no_second_wall, f"{W} -k d10"),
    "the second wall's list": (_nothing(rules, "rules", ("w/",)), f"{W} -k d10"),
    "the door's words": (_nothing(door, "parse", door.Request(door.CHECKPOINT)), f"{DOOR} -k b21"),
    "paths beneath a root": (lambda: setattr(kernel, "_RESOLVE", 0), f"{DOOR} -k b23"),
    "pipes for redirected files": (_nothing(launch, "_streams"), f"{B} -k b15"),
    "limits of processes": (_nothing(kernel, "limit"), f"{C} -k c25"),
}
if os.getuid() == 0:
    MUTATIONS["dropped capabilities"] = (_without_words("--cap-drop", "ALL"), f"{C} -k c07")
    MUTATIONS["a /run of its own"] = (_instead("/run"), f"{B} -k b02")
_TESTS = {"terminal": f"{A} -k a01", "console": f"{A} -k a22", "keyring": f"{B} -k b18"}
_TESTS |= dict.fromkeys(("socket families", "netlink", "socket pairs"), f"{B} -k b20")
MUTATIONS |= {f"filter: {r.name}": (_without_rule("ALWAYS", r.name), _TESTS.get(r.name, f"{C} -k c27")) for r in seccomp.ALWAYS}
MUTATIONS |= {f"filter: {r.name}": (_without_rule("NESTED", r.name), f"{C} -k c09") for r in seccomp.NESTED}
# Without the row the kernel of many machines gives the same answer: it has no such call.
SAME_ON_MANY_KERNELS = ("filter: kernel log", "filter: kexec", "filter: modules", "filter: old", "filter: userfaultfd")
RACES = ("paths beneath a root",)  # won by the test in most of its tries, not in each


def take_out(name: str) -> None:
    """Change this process as a mutation says."""
    MUTATIONS[name][0]()


def main(names: list[str]) -> int:
    """Run the tests of each mutation; return 1 when one lived."""
    place = os.environ.get("PYTEST_DEBUG_TEMPROOT")  # where .ci/in-memory has the tests' files
    with tempfile.TemporaryDirectory(prefix="agent-dev-mutations-", dir=place) as folder:
        os.chmod(folder, 0o755)  # noqa: S103  (also for an ordinary user of a test)
        program = f"{folder}/agent-dev"
        with open(program, "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(python=sys.executable, root=str(FOLDER.parents[1])))
        os.chmod(program, 0o755)  # noqa: S103
        return _tried(names, program)


def _tried(names: list[str], program: str) -> int:
    lived = []
    wanted = [name for name in MUTATIONS if not names or name in names]
    with ThreadPoolExecutor(2 * len(os.sched_getaffinity(0))) as pool:  # half of the time is waiting
        for name, code in zip(wanted, pool.map(lambda name: _exit_code(name, program), wanted), strict=True):
            is_same = code == 0 and name in SAME_ON_MANY_KERNELS
            sys.stdout.write(f"{'same here' if is_same else 'caught' if code == 1 else 'LIVED'}: without {name}\n")
            sys.stdout.flush()
            if code != 1 and not is_same:
                lived.append(name)
    return bool(lived)


def _exit_code(name: str, program: str) -> int:
    """Return pytest's for the tests of a mutation: 1 when one fails."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    words += [f"--basetemp={program}-{list(MUTATIONS).index(name)}", *MUTATIONS[name][1].split()]
    env = {**os.environ, "AGENT_DEV_TEST_PROGRAM": program, "AGENT_DEV_TEST_MUTATION": name}
    for _ in range(3 if name in RACES else 1):
        code = subprocess.run(words, env=env, capture_output=True, check=False, cwd=FOLDER.parents[1]).returncode
        if code:
            break
    return code


if __name__ == "__main__":
    mutation = os.environ.get("AGENT_DEV_TEST_MUTATION")
    if mutation is None:
        sys.exit(main(sys.argv[1:]))
    take_out(mutation)
    from agent_dev.cli.main import main as agent_dev

    agent_dev()
