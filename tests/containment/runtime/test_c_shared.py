"""CONTAINMENT C: the kernel's per-user limits, and the first process inside."""

import json
import os
import resource
import time

import pytest

from tests.containment.rows import row
from tests.containment.support.world import LIBC, Machine
from tests.harness.program import PYTHON, wait_until

TAKE_ALL = """
import ctypes, json, os, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
count = 0
while libc.inotify_init() >= 0:
    count += 1
names = ("RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE", "RLIMIT_MEMLOCK")
print(json.dumps([count, [resource.getrlimit(getattr(resource, name))[1] for name in names]]), flush=True)
sys.stdin.read()
"""
# A background process traces the first process inside, or overwrites its code, and then continues.
HOLD = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ready, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    result = libc.ptrace({request}, 1, 0, 0)
    os.write(w, b"%d" % (ctypes.get_errno() if result else 0))
    for fd in range(3):
        os.close(fd)
    libc.pause()
print(os.read(ready, 9).decode(), flush=True)
os._exit(7)
"""
OVERWRITE = """
import os, time
line = next(line for line in open("/proc/1/maps") if " r-xp " in line and "libc" in line or "musl" in line)
start, end = (int(part, 16) for part in line.split()[0].split("-"))
try:
    with open("/proc/1/mem", "r+b", 0) as file:
        file.seek(start)
        file.write(({step!r} * (end - start))[: end - start - 4] + {loop!r})
except OSError:
    pass
time.sleep({pause})
os._exit(7)
"""
CODE = {"x86_64": (b"\x90", b"\x90\x90\xeb\xfe"), "aarch64": (b"\x1f\x20\x03\xd5", b"\0\0\0\x14")}  # a no-op, and an endless loop
ATTACH, SEIZE, EPERM = 16, 0x4206, 1


def own_instances() -> int:
    """Return how many inotify instances this user can create now, and close them."""
    created: list[int] = []
    while (fd := LIBC.inotify_init()) >= 0 and len(created) < 8:
        created.append(fd)
    for one in created:
        os.close(one)
    return len(created)


@row(
    "use up the user's inotify instances, pending signals, message queues and locked memory",
    "the sandbox gets half of the kernel's per-user limits, by its user namespace and its processes' limits",
)
def test_c37_half_of_the_per_user_limits_stays_for_the_users_programs(world: Machine) -> None:
    with open("/proc/sys/user/max_inotify_instances", encoding="ascii") as file:
        most = int(file.read())
    with world.program.start("--", PYTHON, "-c", TAKE_ALL) as process:
        assert process.stdout is not None
        count, limits = json.loads(process.stdout.readline())
        assert own_instances() == 8
        process.communicate(timeout=60)
    assert 8 <= count <= (most + 1) // 2
    for limit, name in zip(limits, ("RLIMIT_SIGPENDING", "RLIMIT_MSGQUEUE", "RLIMIT_MEMLOCK"), strict=True):
        hard = resource.getrlimit(getattr(resource, name))[1]
        assert limit == (hard // 2 if hard != resource.RLIM_INFINITY else hard)


@row("trace the first process inside, so that its exit is not seen", "the seccomp filter denies it: EPERM")
def test_c38_the_first_process_inside_is_not_traced(world: Machine) -> None:
    for request in (ATTACH, SEIZE):
        done = world.program("--", PYTHON, "-c", HOLD.format(request=request), timeout=60)
        assert (done.returncode, done.stdout) == (7, f"{EPERM}\n"), done.stderr


@row(
    "overwrite the first process inside, so that it does not exit",
    "the launcher detects it, and kills the sandbox 2 to 10 s later",
)
@pytest.mark.parametrize("pause", [0, 1])
def test_c39_a_first_process_that_does_not_exit_is_killed(world: Machine, pause: int) -> None:
    start = time.monotonic()
    step, loop = CODE[os.uname().machine]
    done = world.program("--", PYTHON, "-c", OVERWRITE.format(step=step, loop=loop, pause=pause), timeout=60)
    assert done.returncode in (7, 137), done.stderr  # 137: killed before its exit code was read
    assert time.monotonic() - start < 45
    assert wait_until(lambda: not world.program.sessions(), "nothing is left")
