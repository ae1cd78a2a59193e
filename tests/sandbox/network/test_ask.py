"""`net: ask`: a connection that no rule names waits for the user, and `net: learn`."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.harness.internet import CLIENT, PORT, in_internet
from tests.harness.program import PYTHON, AgentDev, children, open_descriptors, wait_until
from tests.harness.servers.proxies import HTTP_PORT, PASSWORD, USER

API, FILES = "api.example.org", "files.example.org"
PATIENT = CLIENT.replace("(host, port), 10)", "(host, port), 100)")  # as long as a question waits
# Asks several at once: a line with pairs of host and port is answered by a line with the answers.
TALK = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(16)
open("kept", "w").close()
for line in sys.stdin:
    pairs = [word.rpartition(":") for word in line.split()]
    print(json.dumps([*pool.map(lambda pair: ask(pair[0], int(pair[2]), b""), pairs)]), flush=True)
"""


class Agent:
    """A program inside that makes connections."""

    def __init__(self, program: AgentDev, process: subprocess.Popen[str]) -> None:
        self.program, self.process = program, process

    def connect(self, *targets: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(targets) + "\n")
        self.process.stdin.flush()

    def answers(self) -> list[str]:
        assert self.process.stdout is not None
        found: list[str] = json.loads(self.process.stdout.readline())
        return found

    def questions(self) -> list[dict[str, Any]]:
        done = self.program("approve", "--json")
        return list(json.loads(done.stdout)["questions"]) if done.returncode == 0 else []

    def asks(self, count: int = 1) -> list[dict[str, Any]]:
        """Return the questions, once there are so many."""
        wait_until(lambda: len(self.questions()) == count, f"{count} questions")
        return self.questions()

    def approve(self, *words: str) -> str:
        done = self.program("approve", *words)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def end(self) -> str:
        """End the program; return what agent-dev said."""
        return self.process.communicate(timeout=60)[1]


@contextmanager
def agent(program: AgentDev, *words: str, net: str = "ask") -> Iterator[Agent]:
    options = ("--net", net, "--no-merge", *words)
    with program.start(*options, "--", PYTHON, "-I", "-c", PATIENT + TALK, before=in_internet()) as process:
        yield Agent(program, process)


def rows(program: AgentDev) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(program.do("log", "--network", "--json"))["connections"]
    return sorted(found, key=lambda row: row["time"])


def config(program: AgentDev) -> Path:
    folder = Path(program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_many_connections_to_one_name_and_port_share_one_question(agent_dev: AgentDev) -> None:
    with agent(agent_dev) as one:
        one.connect(*[f"{API}:{PORT}"] * 8, f"{API}:22")
        first, second = one.asks(2)
        assert {first["port"], second["port"]} == {PORT, 22}
        question = first if first["port"] == PORT else second
        assert (question["kind"], question["name"], question["program"]) == ("connection", API, "python3")
        assert agent_dev("approve").stdout.count(f"{API}:{PORT}  python3 (pid {question['pid']})") == 1
        printed = one.approve(str(question["number"]))
        assert printed == f"agent-dev: approved: {question['number']}  {API}:{PORT}  python3 (pid {question['pid']})\n"
        one.approve("--deny", str((first["number"] + second["number"]) - question["number"]))
        answers = one.answers()
        assert ["OUT" in answer for answer in answers] == [True] * 8 + [False]
        one.connect(f"{API}:{PORT}", f"{API}:22")  # approved once: asked again; denied: not in this session
        (again,) = one.asks()
        assert (again["port"], again["number"]) == (PORT, 3)
        one.approve("--deny", "3")
        assert one.answers() == ["ECONNRESET", "ECONNRESET"]
        printed = one.end()
    assert f"agent-dev: {API}:{PORT} waits for the user's approval (agent-dev approve), at most 120 s" in printed
    assert f"agent-dev: {API}:22: denied by the user" in printed
    assert "3 connections were denied (agent-dev log --network --denied)" in printed
    logged = rows(agent_dev)
    assert [row.get("answer") for row in logged].count("yes") == 8
    denied = sorted(row["why"] for row in logged if row["decision"] == "deny")
    assert denied == [f"denied by the rule {API}:22", "denied by the user", "denied by the user"]


def test_an_answer_for_the_session_holds_when_it_is_resumed_also_behind_a_proxy(agent_dev: AgentDev) -> None:
    proxy = f"http://{USER}:{quote(PASSWORD)}@127.0.0.1:{HTTP_PORT}"
    (config(agent_dev) / "config.yaml").write_text(f"upstream_proxy: {proxy}\n")
    inner = "inner.example.org"  # only the proxy knows it
    with agent(agent_dev) as one:
        one.connect(f"{API}:{PORT}", f"{FILES}:{PORT}", f"{inner}:{PORT}")
        numbers = {row["name"]: str(row["number"]) for row in one.asks(3)}
        assert agent_dev.status()["approvals"] == 3
        one.approve("--session", numbers[API])
        one.approve("--session", numbers[inner])
        one.approve("--deny", numbers[FILES])
        assert ["OUT" in answer for answer in one.answers()] == [True, False, True]
        one.end()
    with agent_dev.start("--no-merge", "resume", before=in_internet()) as process:
        one = Agent(agent_dev, process)
        one.connect(f"{API}:{PORT}", f"{FILES}:{PORT}", f"{API}:22")
        (question,) = one.asks()
        assert (question["number"], question["port"]) == (4, 22)
        one.approve("4")
        assert ["OUT" in answer for answer in one.answers()] == [True, False, True]
        one.end()


def test_an_answer_for_always_is_a_rule_of_the_profile_with_its_origin(agent_dev: AgentDev) -> None:
    path = config(agent_dev) / "network" / "default.yaml"
    with agent(agent_dev) as one, agent(agent_dev) as other:
        one.connect(f"{API}:{PORT}")
        one.asks()
        (waiting,) = [row["session"] for row in agent_dev.sessions() if row["approvals"]]
        one.approve("--always", "1", "--in", waiting)
        assert "OUT" in one.answers()[0]
        other.connect(f"{API}:{PORT}")  # another session reads it at once
        assert "OUT" in other.answers()[0]
        one.end()
        other.end()
    assert path.read_text().splitlines()[-2:] == ["allow:", f'  - "{API}:{PORT}"']
    assert f"{path}:4" in next(line for line in agent_dev.do("--net", "ask", "show", "--", "true").splitlines() if API in line)
    assert "network/default.yaml:4" in agent_dev("--net", "ask", "why", f"{API}:{PORT}").stdout
    path.write_text("allow: [1 2]\n")
    done = agent_dev("--net", "ask", "--", "true")
    assert (done.returncode, f"{path}:1: allow" in done.stderr) == (125, True)


def test_a_destination_that_is_refused_anyway_causes_no_question(agent_dev: AgentDev) -> None:
    targets = ["evil.example.net:7000", "loop.example.org:7000", "meta.example.org:80", "rebound.example.org:7000"]
    targets += ["corp.example.org:7000", "10.9.8.7:7000", "169.254.169.254:80", "nowhere.example.org:443", "28.1.1.1:443"]
    with agent(agent_dev, "--deny", "evil.example.net") as one:
        one.connect(*targets)
        assert not any("OUT" in answer for answer in one.answers())
        one.end()
    assert not [*agent_dev.state.glob("sessions/*/asks/*.json")]
    assert [row["decision"] for row in rows(agent_dev)] == ["deny"] * len(targets)
    assert not any("answer" in row for row in rows(agent_dev))


def test_a_connection_without_a_timely_answer_is_denied(agent_dev: AgentDev) -> None:
    (config(agent_dev) / "config.yaml").write_text("net: ask\nask_seconds: 1\n")
    with agent(agent_dev) as one:
        one.connect(f"{API}:{PORT}")
        assert one.answers() == ["ECONNRESET"]
        one.end()
    (row,) = rows(agent_dev)
    assert (row["answer"], row["why"], row["waited"] >= 1000) == ("none", "nobody approved it in time", True)


def test_a_question_goes_with_the_program_that_waits(agent_dev: AgentDev) -> None:
    code = f"import socket; socket.create_connection(('{API}', {PORT})).recv(1)"
    shell = f'touch kept; {PYTHON} -Ic "{code}" & read go; kill -9 $!; wait; touch later; read go'
    words = ("--net", "ask", "--no-merge", "--", "sh", "-c", shell)
    with agent_dev.start(*words, before=in_internet()) as process:
        one = Agent(agent_dev, process)
        one.asks()
        one.connect("go")
        one.asks(0)
        one.end()


def test_a_killed_gateway_takes_its_question_along_and_nothing_is_reachable(agent_dev: AgentDev) -> None:
    with agent(agent_dev, "--allow", f"{FILES}:{PORT}") as one:
        one.connect(f"{API}:{PORT}")
        one.asks()
        launcher = next(pid for pid in children(one.process.pid) if b"agent" in Path(f"/proc/{pid}/cmdline").read_bytes())
        (gateway,) = [pid for pid in children(launcher) if has_event_loop(pid)]
        os.kill(gateway, signal.SIGKILL)
        assert one.answers() != ["OUT"]
        one.asks(0)
        assert agent_dev("approve", "1").returncode == 2
        one.connect(f"{FILES}:{PORT}")
        assert not any("OUT" in answer for answer in one.answers())
        assert "the sandbox's gateway ended before the agent" in one.end()


def has_event_loop(pid: int) -> bool:
    try:
        return "anon_inode:[eventpoll]" in open_descriptors(pid).values()
    except PermissionError:
        return False  # a process that is not ours to read


def test_the_draft_of_learn_names_the_hosts_that_were_reached(agent_dev: AgentDev) -> None:
    words = ("learn", "--output", "draft.yaml", "bash", "-c", f'exec {PYTHON} -I -c "$0"', PATIENT + TALK)
    with agent_dev.start("--net", "learn", "--no-merge", *words, before=in_internet()) as process:
        one = Agent(agent_dev, process)
        one.connect(f"{API}:22", "10.9.8.7:7000")
        assert ["OUT" in answer for answer in one.answers()] == [True, False]
        one.end()
    hosts = (agent_dev.repo / "draft.yaml").read_text().partition("# allow:\n")[2]
    assert hosts == f'#   - "{API}:22"\n'


def test_learn_allows_public_names_and_prints_their_rules(agent_dev: AgentDev) -> None:
    targets = [f"{API}:{PORT}", f"{API}:22", "loop.example.org:7000", "meta.example.org:7000", "10.9.8.7:7000", f"{FILES}:{PORT}"]
    with agent(agent_dev, "--deny", FILES, net="learn") as one:
        one.connect(*targets)
        assert ["OUT" in answer for answer in one.answers()] == [True, True, False, False, False, False]
        printed = one.end()
    assert f'learned 1 rule; allow: ["{API}:22,{PORT}"]' in printed
    path = config(agent_dev) / "config.yaml"
    path.write_text(agent_dev.do("log", "--network", "--as-profile"))
    shown = agent_dev.do("show", "--json", "--", "true")
    allowed = [(row["value"], row["origin"]) for row in json.loads(shown)["rows"] if row["name"] in ("net", "allow")]
    assert allowed == [("allow", f"{path}:1"), (f"{API}:22,{PORT}", f"{path}:3")]
