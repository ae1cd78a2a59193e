"""The log of connections: `log --network`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import lay_out_home, lay_out_repository
from tests.harness.internet import CLIENT, PORT, in_internet
from tests.harness.program import PYTHON, AgentDev

API = "api.example.org"


def logged(program: AgentDev, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(program.do("log", "--network", *words, "--json"))["connections"]
    return rows


_REQUEST = "GET / HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n"
_VISITS = f"""
open("new", "w").close()  # a session without changes is not kept
[ask("{API}", {PORT}), ask("{API}", 22, b""), ask("loop.example.org", {PORT}), ask("localhost", {PORT})]
with socket.create_connection(("{API}", 80), 10) as one:
    for host in ("{API}", "evil.example.net"):
        one.sendall(("{_REQUEST}" % host).encode())
        one.recv(4000)
last = socket.create_connection(("{API}", 8080), 10)
last.sendall(("{_REQUEST}" % "{API}:8080").encode())
last.recv(100)
__import__("os")._exit(0)
"""


def visit(program: AgentDev, code: str) -> None:
    """Run code in a session that is kept."""
    rules = (f"{API}:80,8080,{PORT}", f"loop.example.org:{PORT}", f"localhost:9 as {PORT}")
    words = [word for rule in rules for word in ("--allow", rule)]
    done = program("--net", "allow", *words, "--no-merge", "--", PYTHON, "-I", "-c", CLIENT + code, before=in_internet())
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> AgentDev:
    """Return the program with an ended session that made connections of every kind."""
    home = lay_out_home(tmp_path_factory.mktemp("machine"))
    program = AgentDev(home, lay_out_repository(home))
    visit(program, _VISITS)
    return program


def test_connections_are_logged_with_their_reason_bytes_and_program(visited: AgentDev) -> None:
    rows = sorted(logged(visited), key=lambda row: row["time"])  # each is logged when it ends
    allowed, denied, looped, local = rows[:4]
    assert (allowed["name"], allowed["port"], allowed["decision"]) == (API, PORT, "allow")
    assert allowed["rule"] == f"{API}:80,8080,{PORT}"
    assert (allowed["sent"], allowed["received"]) == (0, len("OUT hello from 93.184.215.14\n"))
    assert (allowed["program"], allowed["pid"] > 1) == ("python3", True)
    assert (denied["decision"], denied["why"]) == ("deny", "no rule allows it")
    assert "127.0.0.1, which is not public" in looped["why"]
    assert (local["name"], local["problem"]) == ("localhost", "Connection refused")
    assert [row["port"] for row in logged(visited, "--denied")] == [22, PORT, 80]
    text = visited.do("log", "--network")
    assert f"allow  {API}:{PORT}  python3 (pid " in text
    assert f"deny   {API}:22  python3 (pid " in text


def test_a_request_that_is_denied_later_is_logged_so(visited: AgentDev) -> None:
    (row,) = [row for row in logged(visited) if row["port"] == 80]
    assert (row["decision"], "evil.example.net" in row["why"], row["sent"] > 0) == ("deny", True, True)


def test_a_connection_that_lasts_to_the_end_is_logged(visited: AgentDev) -> None:
    (row,) = [row for row in logged(visited) if row["port"] == 8080]
    assert (row["decision"], row["received"] > 0) == ("allow", True)


def test_tampering_with_the_log_is_reported(visited: AgentDev) -> None:
    (folder,) = visited.session_directories()
    path = visited.state / folder / "network.jsonl"
    before = path.read_text()
    path.write_text(before.replace("no rule", "a rule"))
    done = visited("log", "--network")
    path.write_text(before)
    assert done.returncode == 1
    assert "tampered" in done.stderr


def test_a_session_without_such_a_network_has_no_connections(agent_dev: AgentDev) -> None:
    agent_dev.ended_session("touch new")
    assert "has no connections" in agent_dev.do("log", "--network")
    done = agent_dev("log", "--denied")
    assert (done.returncode, "--denied needs --network" in done.stderr) == (2, True)


def test_a_run_that_ends_before_the_gateway_has_loaded_has_an_empty_log(agent_dev: AgentDev) -> None:
    assert agent_dev("--net", "allow", "--no-merge", "--", "touch", "new").returncode == 0
    assert logged(agent_dev) == []


def test_connections_abandoned_before_the_gateway_has_loaded_are_logged(agent_dev: AgentDev) -> None:
    code = f"touch new; exec 3<>/dev/tcp/192.0.2.1/443 4<>/dev/tcp/127.0.0.1/{PORT} 5<>/dev/tcp/127.0.0.1/{PORT}"
    done = agent_dev("--net", "allow", "--allow", f"localhost:9 as {PORT}", "--no-merge", "--", "bash", "-c", code)
    assert done.returncode == 0, done.stderr
    assert sorted((row["decision"], row["address"], row.get("rule", row.get("why"))) for row in logged(agent_dev)) == [
        ("allow", "127.0.0.1", f"localhost:9 as {PORT}"),
        ("allow", "127.0.0.1", f"localhost:9 as {PORT}"),
        ("deny", "192.0.2.1", "no rule allows it"),
    ]


def test_the_log_of_a_resumed_session_continues(agent_dev: AgentDev) -> None:
    visit(agent_dev, f"open('new', 'w').close(); ask('{API}', 22, b'')")
    done = agent_dev("--no-merge", "resume", before=in_internet())
    assert done.returncode == 0, done.stderr
    assert [row["n"] for row in logged(agent_dev)] == [1, 2]


def test_why_names_the_rule_that_decides(agent_dev: AgentDev) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(
        "net: allow\nallow:\n  - '*.example.org:22'\n  - localhost:5432\ndeny: [gist.example.org]\npublish: ['8080:80']\n"
    )

    def why(host: str) -> str:
        return agent_dev("why", host).stdout

    assert "config.yaml:3" in why("git.example.org:22")
    assert "not reachable" in why("git.example.org:443")
    assert "config.yaml:5" in why("gist.example.org:22")
    assert "config.yaml:4" in why("localhost:5432")
    assert "--allow 1.1.1.1:443" in why("1.1.1.1:443")
    published = why("localhost:80")
    assert published.startswith("localhost:80: in the sandbox: a server of the agent, published at 127.0.0.1:8080\n")
    assert "publish: 8080:80 (" in published
    assert "config.yaml:6" in published


def test_why_agrees_with_the_gateway_about_wide_rules_and_spellings(agent_dev: AgentDev) -> None:
    words = ("--net", "allow", "--allow", "8.0.0.0/6:7000", "--allow", "bücher.example:22")
    for host, state in (
        ("10.9.8.7:7000", "not reachable: it is not public, and 8.0.0.0/6:7000 is wider than one private network"),
        ("8.8.8.8:7000", "reachable: port 7000"),
        ("BÜCHER.example.:22", "reachable: port 22"),
        ("xn--bcher-kva.example:22", "reachable: port 22"),
        ("bücher.example:23", "not reachable: no rule allows it"),
    ):
        assert agent_dev(*words, "why", host).stdout.startswith(f"{host}: {state}")


@pytest.mark.parametrize(
    ("net", "host", "state"),
    [
        ("allow", "new.example.org", "not reachable: no rule allows it"),
        ("ask", "new.example.org", "asks you: no rule allows it"),
        ("ask", "10.1.2.3:22", "not reachable: no rule allows it, and it is not public"),
        ("ask", "93.184.215.14:22", "asks you: "),
        ("ask", "localhost:99", "not reachable: no rule allows it"),
        ("ask", "api.anthropic.com", "reachable: port 443"),
        ("learn", "new.example.org:22", "reachable: no rule names it: it is learned"),
        ("learn", "93.184.215.14", "not reachable: no rule allows it"),
        ("learn", "93.184.215.14:22", "not reachable: no rule allows it"),
    ],
)
def test_why_explains_a_host_without_a_rule_in_every_mode(agent_dev: AgentDev, net: str, host: str, state: str) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev" / "profiles"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("command: [sh]\nagent: {hosts: [api.anthropic.com]}\n")
    assert f"{host}: {state}" in agent_dev("--net", net, "why", "--agent", "mine", host).stdout


def test_doctor_tests_the_requirements_of_such_a_network(agent_dev: AgentDev) -> None:
    lines = [line for line in agent_dev("doctor").stdout.splitlines() if "net: allow" in line]
    assert ["works (tested)" in line for line in lines] == [True]
