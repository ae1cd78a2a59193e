"""Everyday work of agents inside: packages, builds, parallel tests, debuggers, editors, terminals, no network."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.program import PROGRAM, PYTHON, AgentDev, tree
from tests.harness.terminal import Terminal

Inside = Callable[..., Terminal]


def needs(program: str) -> str:
    """Return the path of a system program, which is the same inside; skip without it."""
    found = shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def work(agent_dev: AgentDev, script: str, *options: str) -> str:
    """Run a script inside, check that it exits with status 0, and return its output."""
    done = agent_dev("--no-merge", *options, "--", "bash", "-euc", script, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def terminal(agent_dev: AgentDev) -> Inside:
    """Return a function that starts a program inside at a terminal: `terminal(words…)`."""

    def started(*words: str) -> Terminal:
        argv = [str(PROGRAM), "--no-merge", "--", *words]
        return Terminal(argv, env=agent_dev.terminal_environment(), cwd=agent_dev.repo, rows=24, cols=80)

    return started


# Packages

PACKAGE = '{"name": "left", "version": "1.0.0", "bin": {"left": "left.js"}, "scripts": {"postinstall": "echo ran >hook"}}'


@pytest.mark.slow
def test_npm_installs_a_package_and_runs_its_hook(agent_dev: AgentDev) -> None:
    needs("npm")
    script = f"""
    mkdir left && cd left && echo '{PACKAGE}' >package.json
    printf '#!/usr/bin/env node\\nconsole.log("left " + 1)\\n' >left.js; chmod +x left.js
    npm pack --silent; cd ..; echo '{{"name": "shop", "version": "1.0.0"}}' >package.json
    npm install --no-audit --no-fund --offline ./left/left-1.0.0.tgz >&2
    npx --offline left; cat node_modules/left/hook
    """
    assert work(agent_dev, script).split()[-3:] == ["left", "1", "ran"]
    changes = agent_dev.changes()
    assert changes["package-lock.json"] == "added"
    assert changes["package.json"] == "added"


SETUP = "from setuptools import setup; setup(name='left', version='1', py_modules=['left'])"


@pytest.mark.slow
def test_pip_builds_and_installs_a_package_without_a_network(agent_dev: AgentDev) -> None:
    script = f"""
    {PYTHON} -m venv /tmp/venv; mkdir left; cd left; echo 'print("left", 1)' >left.py; echo "{SETUP}" >setup.py; cd ..
    /tmp/venv/bin/pip install -q --no-index --no-build-isolation --disable-pip-version-check ./left >&2
    /tmp/venv/bin/python -m left
    """
    assert work(agent_dev, script, "--net", "none") == "left 1\n"


# Builds

MAKE = """
SOURCES := $(wildcard *.c)
all: $(SOURCES:.c=.o)
\tcc -o all $^
%.o: %.c
\tcc -c -o $@ $<
"""


def test_make_builds_in_parallel(agent_dev: AgentDev, repo: Path) -> None:
    needs("cc")
    (repo / "Makefile").write_text(MAKE)
    for number in range(20):
        (repo / f"f{number}.c").write_text(f"int f{number}(void) {{ return {number}; }}\n")
    (repo / "main.c").write_text('#include <stdio.h>\nint f7(void);\nint main(void) { printf("%d\\n", f7()); }\n')
    before = tree(repo)
    assert work(agent_dev, "make -s -j 8; ./all") == "7\n"
    assert tree(repo) == before


@pytest.mark.slow
def test_cargo_builds_a_crate(agent_dev: AgentDev) -> None:
    needs("cargo")
    script = """
    cargo init -q --name shop --vcs none .
    cargo build -q --offline; ./target/debug/shop; ls -d target
    """
    assert work(agent_dev, script) == "Hello, world!\ntarget\n"


# Parallel tests: the primitives that pytest-xdist and similar tools use

PARALLEL = """
import multiprocessing, os, tempfile
from multiprocessing import shared_memory
def begin(its):
    global lock
    lock = its
def work(number):
    with lock:
        return number * number, os.getpid()
if __name__ == "__main__":
    found = set()
    for way in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(way)
        lock = context.Lock()
        with context.Pool(4, begin, (lock,)) as pool:
            assert [square for square, _ in pool.map(work, range(50))] == [n * n for n in range(50)]
    memory = shared_memory.SharedMemory(create=True, size=1 << 20)
    memory.buf[0] = 7
    same = shared_memory.SharedMemory(memory.name)
    assert same.buf[0] == 7
    same.close(); memory.close(); memory.unlink()
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        assert shared["a"] == 1
    print("well")
"""


def test_tests_run_in_parallel_processes(agent_dev: AgentDev, repo: Path) -> None:
    (repo / "parallel.py").write_text(PARALLEL)
    assert work(agent_dev, f"{PYTHON} -W ignore parallel.py") == "well\n"


# Without a network


def test_git_works_without_a_network_and_reports_unreachable_hosts(agent_dev: AgentDev) -> None:
    script = """
    git clone -q . /tmp/copy; cd /tmp/copy; echo 1 >new; git add new; git commit -qm new; git push -q origin HEAD:refs/heads/topic
    cd "$OLDPWD"; git log -1 --format=%s topic; git remote add far https://far.invalid/x.git
    git fetch far 2>&1 || echo failed=$?
    """
    printed = work(agent_dev, script, "--net", "none")
    assert printed.startswith("new\n")
    assert "Could not resolve host: far.invalid" in printed
    assert printed.endswith("failed=128\n")


# Debuggers

INSPECTED = """
const { Session } = require('inspector');
const { spawn } = require('child_process');
const child = spawn(process.execPath, ['inspect', '--port=0', 'debugged.js']);
let said = '', at = 0;
const steps = ["cont\\n", "exec('total')\\n", ".exit\\n"];
const prompts = [/Break on start/, /break in debugged.js:3/, /< ?42|42\\n/];
child.stdout.on('data', (data) => {
  said += data;
  while (at < steps.length && prompts[at].test(said)) { said = ''; child.stdin.write(steps[at++]); }
});
child.on('close', () => console.log(at === steps.length ? 'debugged' : 'stuck: ' + said));
setTimeout(() => child.kill(), 25000).unref();
"""


@pytest.mark.parametrize("net", ["host", "none"])
def test_a_node_program_can_be_debugged(agent_dev: AgentDev, repo: Path, net: str) -> None:
    needs("node")
    (repo / "debugged.js").write_text("let total = 40;\ntotal += 2;\ndebugger;\nconsole.log(total);\n")
    (repo / "inspected.js").write_text(INSPECTED)
    assert work(agent_dev, "node inspected.js", "--net", net) == "debugged\n"


def test_a_python_program_can_be_debugged(agent_dev: AgentDev, repo: Path, terminal: Inside) -> None:
    (repo / "debugged.py").write_text("total = 40\ntotal += 2\nprint('end')\n")
    with terminal(PYTHON, "-m", "pdb", "debugged.py") as pdb:
        pdb.wait_for("(Pdb)")
        pdb.send("break 3\rcontinue\r")
        pdb.wait_for("-> print('end')")
        pdb.send("p total * 100\r")
        pdb.wait_for("4200")
        pdb.send("quit\r")
        assert pdb.wait_exit(60) == 0


# Editors and terminals


def test_vim_edits_a_file(agent_dev: AgentDev, repo: Path, terminal: Inside) -> None:
    with terminal(needs("vi"), "-T", "vt100", "-u", "NONE", "README.md") as editor:
        editor.wait_for("# Shop")
        editor.wait_quiet()
        editor.send("Gonew line\x1b:wq\r")
        assert editor.wait_exit(60) == 0
    assert agent_dev.changes() == {"README.md": "edited"}
    assert (repo / "README.md").read_text() == "# Shop\n"
    agent_dev("merge", "--all")
    assert (repo / "README.md").read_text() == "# Shop\nnew line\n"


def test_tmux_runs_inside_and_exits_with_the_session(terminal: Inside) -> None:
    needs("tmux")
    with terminal("tmux", "-f", "/dev/null", "new-session", "sh", ";", "split-window", "sh") as tmux:
        tmux.wait_for("[0]", 60)
        tmux.wait_quiet()
        tmux.send("stty size; echo in-$((40+2))\r")
        tmux.wait_for("in-42")
        tmux.resize(30, 100)
        tmux.wait_quiet()
        tmux.send("exit\r")
        tmux.wait_quiet()
        tmux.send("exit\r")
        assert tmux.wait_exit(60) == 0
