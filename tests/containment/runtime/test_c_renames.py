"""CONTAINMENT C: the rename supervisor works only on the sandbox's directories, and cannot be kept busy by an agent."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.containment.rows import row
from tests.containment.support.world import Machine
from tests.harness.program import PYTHON, children, supervisor_of, tree, wait_until
from tests.harness.scale import repeat

TRIES = repeat(150)
# One thread rewrites the path that another one renames: a directory, symlinks out of the sandbox, a missing name.
RACE = """if True:
    import ctypes, os, sys, threading
    c = ctypes.CDLL(None, use_errno=True)
    outside = sys.argv[1]
    os.symlink(outside, 'out'); os.symlink('../' * 20 + outside, 'up'); os.symlink('/proc/self/cwd', 'magic')
    paths = [b'sub', b'x', b'out/sub', b'up/sub', outside.encode() + b'/sub', b'magic/sub', b'out', b'sub/deep', b'../shop/sub']
    buffer = ctypes.create_string_buffer(4096)
    over = False
    def rewrite():
        n = 0
        while not over:
            n += 1
            word = paths[n % len(paths)]
            ctypes.memmove(buffer, word + b'\\0', len(word) + 1)
    threading.Thread(target=rewrite).start()
    done = 0
    for n in range(int(sys.argv[2])):
        done += c.rename(buffer, b'x' if n % 2 else b'sub') == 0
        c.renameat2(-100, buffer, -100, buffer, 2)
        c.rename(b'x', b'sub')
        done += c.rename(b'sub', b'y') == 0
        c.rename(b'y', b'sub')
    over = True
    print(done)
"""


def marks(folder: Path) -> dict[str, list[str]]:
    """Return the extended attributes of all entries below a directory."""
    return {str(path): os.listxattr(path, follow_symlinks=False) for path in [folder, *folder.rglob("*")]}


@row(
    "rewrite a rename's path while it is handled: symlinks to the host, up, through /proc, other directories",
    "the kernel renames with the caller's privileges; the supervisor only copies up below the root, following no symlinks",
)
@pytest.mark.parametrize("policy", ["guard", '"off"'])
def test_c31_a_racing_rename_reaches_nothing_outside(world: Machine, policy: str) -> None:
    folder = Path(world.program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"policy: {policy}\n")
    outside = world.folder / "outside"
    (outside / "sub/deep").mkdir(parents=True)
    (outside / "sub/file").write_text("outside")
    before = tree(outside), tree(world.repo), marks(outside), marks(world.repo)
    argv = ("--no-merge", "--", PYTHON, "-I", "-c", RACE, outside, str(TRIES))
    done = world.program(*argv, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    assert (tree(outside), tree(world.repo), marks(outside), marks(world.repo)) == before


@row("find or kill the supervisor that handles renames", "it runs outside and is not visible; without it nothing can be renamed")
def test_c32_the_supervisor_of_renames_is_out_of_reach(world: Machine) -> None:
    code = (
        "import os, signal\n"
        "for pid in (-1, 1):\n"
        "    try: os.kill(pid, 9)\n"
        "    except OSError: pass\n"
        "held = [os.readlink(f'/proc/self/fd/{n}') for n in range(256) if os.path.islink(f'/proc/self/fd/{n}')]\n"
        "assert not any('seccomp' in one for one in held), held\n"
        "os.rename('sub', 'one'); print('ready', flush=True); input()\n"
        "try: os.rename('README.md', 'two')\n"
        "except OSError as error: print(error.strerror)"
    )
    with world.program.start("--no-merge", "--", PYTHON, "-I", "-c", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(wait_until(lambda: supervisor_of(process.pid), "the supervisor is there"), signal.SIGKILL)
        output, _ = process.communicate("\n", timeout=60)
    assert output == "Function not implemented\n"


# Rename files while large directories are renamed; kill some of the renaming processes.
FLOOD = """if True:
    import os, signal, subprocess, sys, time
    rename = 'import os, sys; os.rename(sys.argv[1], sys.argv[1] + "-moved")'
    big = [subprocess.Popen([sys.executable, '-I', '-c', rename, f'many{n}']) for n in range(8)]
    open('a', 'w').close()
    count = 0
    while any(one.poll() is None for one in big[4:]):
        os.rename('a', 'b'); os.rename('b', 'a'); count += 1
        for one in big[:4]:
            if one.poll() is None and count == 20: one.kill()
    codes = [one.wait() for one in big]
    for n in range(8):
        name = f'many{n}'
        there, moved = os.path.isdir(name), os.path.isdir(name + '-moved')
        assert there != moved, name
        assert len(os.listdir(name if there else name + '-moved')) == int(sys.argv[1]), name
        assert moved or codes[n]
    assert codes[4:] == [0] * 4, codes
    print(count)
"""


@row(
    "keep the supervisor busy with directories of many files, and exit while it works",
    "separate workers, at most four; files can be renamed in the meantime, and a directory is renamed completely or not at all",
)
def test_c33_renames_of_large_directories_block_nothing_else(world: Machine) -> None:
    many = repeat(300)
    for number in range(8):
        (world.repo / f"many{number}").mkdir()
        for name in range(many):
            (world.repo / f"many{number}/{name}").write_text("x")
    most = 0
    with world.program.start("--no-merge", "--", PYTHON, "-I", "-c", FLOOD, str(many)) as process:

        def is_over() -> bool:
            nonlocal most
            with contextlib.suppress(FileNotFoundError):  # the launcher or the supervisor has just exited
                supervisor = supervisor_of(process.pid)
                most = max(most, len(children(supervisor)) if supervisor else 0)
            return process.poll() is not None

        wait_until(is_over, "all directories are renamed", patience=300)
        printed, errors = process.communicate()
    assert process.returncode == 0, errors
    assert int(printed) > 20
    assert 1 <= most <= 4, most


def test_a_sandbox_that_ends_during_a_rename_leaves_nothing_running(world: Machine) -> None:
    (world.repo / "many").mkdir()
    for name in range(1500):
        (world.repo / f"many/{name}").write_text("x")
    script = f'echo 1 >kept; {PYTHON} -I -c \'import os; os.rename("many", "moved")\' & sleep 0.2'
    done = world.program("--no-merge", "--", "bash", "-c", script, timeout=120)
    assert done.returncode == 0, done.stderr
    changes = world.program.changes()
    assert changes.pop("kept") == "added"
    assert set(changes.values()) in (set(), {"renamed"})
    assert len(changes) in (0, 1500)
