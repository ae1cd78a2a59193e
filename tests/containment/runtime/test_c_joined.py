"""CONTAINMENT C: the user's commands that join a running sandbox."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.containment.rows import RESIDUAL, row
from tests.harness.program import PROGRAM, PYTHON, AgentDev, descriptors_of_sleep, processes_inside, wait_until
from tests.harness.scale import repeat
from tests.harness.terminal import REQUESTS, Terminal

CANARY = "canary-of-the-user"

# Looks at every process that appears, as quickly as it can, until its stdin ends; counts what it saw of each kind.
SPY = """
import ctypes, json, os, select, sys
libc = ctypes.CDLL(None)
secret = sys.stdin.readline().strip().encode()
own = {int(name) for name in os.listdir("/proc") if name.isdigit()}
seen, leaks = set(), set()
print("ready", flush=True)
def look(pid):
    for name in ("environ", "cmdline", "maps"):
        try:
            data = open(f"/proc/{pid}/{name}", "rb", 0).read()
        except OSError:
            continue
        if secret in data or (name == "maps" and b"_socket" in data):
            leaks.add(name)
        if name == "cmdline" and b"a-joined-command" in data:
            seen.add(pid)
    for attempt in ("exe", "cwd", "root"):
        try:
            target = os.readlink(f"/proc/{pid}/{attempt}")
        except OSError:
            continue
        if "python" in target:
            leaks.add(attempt)
    try:
        if any("socket" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")):
            leaks.add("fd")
    except OSError:
        pass
while not select.select([0], [], [], 0)[0]:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in own:
            look(int(name))
print(json.dumps([len(seen), sorted(leaks)]), flush=True)
"""


@contextmanager
def running(agent_dev: AgentDev, *command: str, env: dict[str, str] | None = None) -> Iterator[Any]:
    """Run an agent that says when it is ready, until its stdin ends."""
    with agent_dev.start("--no-merge", "--", *command, env=env) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process


@row("read the memory, variables or descriptors of a command that joins", "it is hidden from all processes until it execs")
def test_c41_a_joining_command_shows_nothing_of_the_user(agent_dev: AgentDev) -> None:
    with agent_dev.start("--no-merge", "--", PYTHON, "-c", SPY, env={"MY_SECRET": CANARY}) as session:
        assert session.stdin
        assert session.stdout
        session.stdin.write(f"{CANARY}\n")
        session.stdin.flush()
        assert session.stdout.readline() == "ready\n"
        for _ in range(repeat(30)):
            done = agent_dev("exec", "--", "sh", "-c", "exit 3 # a-joined-command", env={"OTHER_SECRET": CANARY})
            assert done.returncode == 3
        output, _ = session.communicate("", timeout=60)
    seen, leaks = json.loads(output)
    assert seen > 0
    assert leaks == []


@row("make a joining command run agent-dev's own interpreter: `#!/proc/self/exe`", "a program that is read-only inside execs it")
def test_c42_a_planted_script_does_not_run_the_users_python(agent_dev: AgentDev, tmp_path: Path) -> None:
    with running(agent_dev, "sh", "-c", "echo '#!/proc/self/exe' > trick; chmod +x trick; echo ready; cat"):
        done = agent_dev("exec", "--", "./trick")
        assert "python" not in done.stdout + done.stderr
        (agent_dev.repo / "show").write_text("#!/proc/self/exe\nreadlink /proc/$$/exe; chmod 755 /proc/$$/exe\n")
        (agent_dev.repo / "show").chmod(0o755)
        shown = agent_dev("exec", "--", "./show")
    shell = os.path.realpath(shutil.which("sh") or "")
    assert shown.stdout == f"{shell}\n"
    assert "Read-only file system" in shown.stderr or "not permitted" in shown.stderr


@row("keep a descriptor of the user's in a joined command", "it gets the three streams only: pipes, or a terminal of its own")
def test_c43_a_joined_command_has_three_descriptors(agent_dev: AgentDev, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("x\n")
    with (
        running(agent_dev, "sh", "-c", "echo ready; cat"),
        (tmp_path / "in").open() as source,
        (tmp_path / "out").open("w") as out,
        agent_dev.start("exec", "--", "sh", "-c", "exec sleep 86421", stdin=source, stdout=out, stderr=out),
    ):
        pid = wait_until(lambda: processes_inside("86421"), "the command")[0]
        found = descriptors_of_sleep(pid)
    assert sorted(found) == [0, 1, 2]
    assert all(target.startswith("pipe:") for target in found.values())


@row(
    "start a command of its own through the socket where commands join",
    "the session's directory is not shown; other users are refused",
)
def test_c44_the_join_socket_is_not_reachable_from_inside(agent_dev: AgentDev) -> None:
    with running(agent_dev, "sh", "-c", "echo ready; cat"):
        path = agent_dev.state / agent_dev.session_directories()[0] / "join"
        assert path.is_socket()
        assert agent_dev("exec", "--", "test", "-e", path).returncode == 1
        assert path.parent.stat().st_mode & 0o077 == 0 or agent_dev.state.stat().st_mode & 0o077 == 0


# Opens the terminal of a command that joins by its name, and tries the requests that it gets; then it reads what is typed there.
AT_THE_TERMINAL = """
import errno, fcntl, json, os, sys, time
requests = json.loads(sys.stdin.readline())
terminal = -1
print("ready", flush=True)
deadline = time.monotonic() + 60
while terminal < 0:
    if time.monotonic() > deadline:
        sys.exit("no terminal of a command that joins can be opened")
    for name in sorted(os.listdir("/dev/pts")):
        if name.isdigit():
            try:
                terminal = os.open(f"/dev/pts/{name}", os.O_RDWR | os.O_NOCTTY)
            except OSError:  # a new terminal is locked for a moment: EIO
                pass
    time.sleep(0.01)
def attempt(request):
    try:
        fcntl.ioctl(terminal, request, b"x" * 64)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
print(json.dumps({name: attempt(number) for name, number in requests.items()}), flush=True)
sys.stdin.readline()
print(os.read(terminal, 64).decode().strip(), flush=True)
"""


@contextmanager
def intruder(agent_dev: AgentDev, *joined: str) -> Iterator[tuple[Any, Terminal, dict[str, str]]]:
    """Run an agent that has opened the terminal of a command that joined; yield both, and what its requests returned."""
    with agent_dev.start("--no-merge", "--", PYTHON, "-c", AT_THE_TERMINAL) as agent:
        assert agent.stdin
        assert agent.stdout
        agent.stdin.write(json.dumps(REQUESTS) + "\n")
        agent.stdin.flush()
        assert agent.stdout.readline() == "ready\n"
        with Terminal([PROGRAM, "exec", "--", *joined], env=agent_dev.terminal_environment(), cwd=agent_dev.repo) as person:
            yield agent, person, json.loads(agent.stdout.readline())


@row(
    "insert input into the terminal of a command that joins, lock it or hang it up, opened by its name (TIOCSTI and others)",
    "the seccomp filter denies it: EPERM, for every terminal",
)
def test_c45_no_input_is_inserted_into_the_terminal_of_a_joined_command(agent_dev: AgentDev) -> None:
    with intruder(agent_dev, "sh", "-c", "echo begun; read line; echo got-$line") as (_, person, returned):
        assert returned == dict.fromkeys(REQUESTS, "EPERM")
        person.wait_for("begun")
        person.send("mine\r")
        person.wait_for("got-mine")


@row(
    "read what the user types in a command that joins, by the name of its terminal",
    "not prevented: the agent is the same user there; the guide says to enter no passwords. Your own terminal stays out of reach",
    RESIDUAL,
)
def test_c46_what_is_typed_in_a_joined_command_is_readable_inside(agent_dev: AgentDev) -> None:
    with intruder(agent_dev, "sh", "-c", "echo begun; exec sleep 86422") as (agent, person, _):
        person.wait_for("begun")
        agent.stdin.write("\n")
        agent.stdin.flush()
        person.send("typed\r")
        assert agent.stdout.readline() == "typed\n"


AS_ANOTHER_USER = """
import os, socket, sys
os.chdir(sys.argv[1])
os.setuid(65534)
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect("join")
print(connection.recv(64))
"""


@pytest.mark.only_root
def test_another_user_is_refused_at_the_join_socket(agent_dev: AgentDev) -> None:
    with running(agent_dev, "sh", "-c", "echo ready; cat"):
        folder = agent_dev.state / agent_dev.session_directories()[0]
        (folder / "join").chmod(0o777)
        folder.chmod(0o755)  # neither is reachable otherwise
        command = [PYTHON, "-c", AS_ANOTHER_USER, str(folder)]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, env=agent_dev.env)
    assert shown.stdout == "b''\n", shown.stderr
