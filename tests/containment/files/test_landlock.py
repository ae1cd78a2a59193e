"""CONTAINMENT D: Landlock's file rules in addition to the mounts, for profiles that forbid nested sandboxes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_dev.linux import syscalls
from agent_dev.sandbox import landlock_probe
from tests.containment.rows import row
from tests.containment.support.world import Machine, Services
from tests.harness.program import PROGRAM, PYTHON, tree
from tests.harness.terminal import Terminal

# The program with a wrong mount in its plan: a host directory that should not be visible. Mutations apply to it, too.
HOLED = """#!{python}
import os, sys
sys.path.insert(0, {root!r})
from agent_dev.sandbox import bwrap
whole = bwrap.bwrap_options
def holed(*parts):
    words = whole(*parts)
    return (*words[:-2], "--bind", {secret!r}, "/leak", *words[-2:])
bwrap.bwrap_options = holed
if os.environ.get("AGENT_DEV_TEST_MUTATION"):
    from tests.containment import mutations
    mutations.apply_mutation(os.environ["AGENT_DEV_TEST_MUTATION"])
from agent_dev.cli.main import main
main()
"""
TRY = """if True:
    import errno, json, os
    def told(act):
        try:
            return act() or "done"
        except OSError as error:
            return errno.errorcode[error.errno]
    print(json.dumps({
        "read": told(lambda: open("/leak/secret").read()),
        "write": told(lambda: open("/leak/secret", "a").close()),
        "make": told(lambda: open("/leak/new", "w").close()),
        "run": told(lambda: os.execv("/leak/run", ["run"])),
        "remove": told(lambda: os.unlink("/leak/secret")),
        "cut": told(lambda: os.truncate("/leak/secret", 0)),
        "out": told(lambda: os.rename("/leak/secret", "/tmp/secret")),
    }))
"""


@pytest.fixture(autouse=True)
def landlock() -> None:
    """Skip if the kernel has no Landlock, or if no Python is mounted inside."""
    if landlock_probe.missing_requirement():
        pytest.skip(landlock_probe.missing_requirement())


@pytest.fixture
def closed(world: Machine) -> Path:
    """Write a profile that forbids nested sandboxes."""
    path = world.folder / "closed.yaml"
    path.write_text("nested: false\n")
    return path


@row(
    "create files outside through a mount that should not exist",
    "with `nested: false`, Landlock rules deny reading and writing everything that the plan does not name",
)
def test_d10_landlock_denies_what_a_wrong_mount_exposes(world: Machine, closed: Path) -> None:
    secret = world.folder / "secret"
    secret.mkdir(0o755)
    (secret / "secret").write_text("canary")
    (secret / "run").write_text("#!/bin/sh\n")
    (secret / "run").chmod(0o755)
    program = world.folder / "holed"
    program.write_text(HOLED.format(python=sys.executable, root=str(Path(syscalls.__file__).parents[2]), secret=str(secret)))
    program.chmod(0o755)
    before = tree(secret)

    def tried(*options: str | Path, code: str = TRY) -> Any:
        argv = [program, "--no-merge", *options, "--", PYTHON, "-I", "-c", code]
        done = subprocess.run(argv, cwd=world.repo, env=world.program.environment(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    found = tried("--profile", closed)
    assert found.pop("out") in ("EACCES", "EXDEV")
    assert found == dict.fromkeys(("read", "write", "make", "run", "remove", "cut"), "EACCES")
    assert tree(secret) == before
    looked = "import json; print(json.dumps({'read': open('/leak/secret').read()}))"
    assert tried(code=looked) == {"read": "canary"}  # the wrong mount works


WORK = """
set -e
echo new >new; mkdir -p a/b; mv new a/b/; ln a/b/new a/twin; ln -s twin a/link; rm -r sub/deep; : >README.md
echo x >/tmp/x; mv /tmp/x "$HOME/x"; echo y >/dev/shm/y; echo z >/dev/null; echo w | cat >/dev/stdout
printf '#!/bin/sh\\necho ran\\n' >run; chmod +x run; ./run; mkfifo f; rm f; ls / >/dev/null; ls -d /home/* >/dev/null || :
git add -A; git commit -qm work; cat <(echo substituted); sort /etc/passwd >/dev/null
yes | head -n 1; trap -p; env | grep -c LC_CTYPE || :
"""


def test_ordinary_work_is_the_same_with_landlock(world: Machine, closed: Path) -> None:
    env = {"LANG": None}
    free = world.program("--no-merge", "--", "bash", "-c", WORK, env=env)
    world.program("discard")
    walled = world.program("--no-merge", "--profile", closed, "--", "bash", "-c", WORK, env=env)
    assert (walled.returncode, walled.stdout) == (free.returncode, free.stdout), walled.stderr
    assert walled.returncode == 0, walled.stderr
    assert world.program.changes()["a/b/new"] == "added"
    assert world.program("merge", "--all", "--include-risky", "--yes-delete-many").returncode == 0
    assert (world.repo / "a/b/new").read_text() == "new\n"


def test_signals_are_the_same_with_landlock(world: Machine, closed: Path) -> None:
    code = "grep -E 'Sig(Ign|Blk)' /proc/self/status; tr '\\0' '\\n' </proc/self/environ | grep -v ^AGENT_DEV_SESSION | sort"
    free = world.program("--", "sh", "-c", code, env={"LANG": None})
    assert world.program("--profile", closed, "--", "sh", "-c", code, env={"LANG": None}).stdout == free.stdout


def test_a_terminal_can_be_reopened_under_landlock(world: Machine, closed: Path) -> None:
    argv = [str(PROGRAM), "--no-merge", "--profile", str(closed), "--", "sh", "-c"]
    argv += ["echo one >/dev/stderr; echo two >/proc/self/fd/1; echo three >/dev/tty; stty size"]
    env = world.program.terminal_environment()
    with Terminal(argv, env=env, cwd=world.repo) as terminal:
        assert terminal.wait_exit(60) == 0, terminal.text()
        assert terminal.text().split()[:5] == ["one", "two", "three", "24", "80"]


@pytest.mark.parametrize(
    ("words", "code"), [(["/nonexistent/x"], 127), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137)]
)
def test_the_exit_status_is_the_same_with_landlock(world: Machine, closed: Path, words: list[str], code: int) -> None:
    assert world.program("--", *words).returncode == code
    assert world.program("--profile", closed, "--", *words).returncode == code


def test_a_policy_logs_the_same_commands_with_landlock(world: Machine, closed: Path) -> None:
    folder = Path(world.program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("policy: guard\n")
    world.program("--no-merge", "--profile", closed, "--", "sh", "-c", "echo x >new; /bin/true")
    rows = json.loads(world.program("log", "--commands", "--json").stdout)["commands"]
    assert [*dict.fromkeys(row["argv"][0] for row in rows if "decision" in row)] == ["sh", "/bin/true"]


def test_abstract_sockets_and_signals_are_scoped_the_same_with_landlock(world: Machine, closed: Path) -> None:
    services = Services(world)
    code = """if True:
        import json, os, socket, sys
        told = []
        with socket.socket(socket.AF_UNIX) as to:
            try:
                to.connect(os.environ["NAME"].replace("@", "\\0"))
                told.append("connected")
            except OSError as error:
                told.append(error.errno)
        with socket.socket(socket.AF_UNIX) as own, socket.socket(socket.AF_UNIX) as to:
            own.bind("\\0own-one")
            own.listen()
            to.connect("\\0own-one")
        print(json.dumps(told))
    """
    try:
        name = services.abstract[0].replace("\0", "@")
        assert world.program.run_python_inside(code, "--profile", closed, "--env", f"NAME={name}") == [1]
    finally:
        services.close()


def test_doctor_reports_landlock(world: Machine) -> None:
    assert "Landlock: version" in world.program("doctor").stdout


def test_a_profile_that_allows_nested_sandboxes_has_no_landlock_rules(world: Machine) -> None:
    assert world.program("--", "cat", "/proc/self/comm").returncode == 0
    assert world.program("--", "ls", "/run/agent-dev").stdout.split().count("wall") == 0
    assert os.path.exists(PYTHON)
