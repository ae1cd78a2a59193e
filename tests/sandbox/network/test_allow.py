"""`net: allow`: programs reach exactly what rules name, in a small internet of the tests."""

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.internet import CLIENT, LOCAL_PORT, PORT, in_internet
from tests.harness.program import PYTHON, AgentDev, children, processes, processes_inside, wait_until
from tests.sandbox.network.conftest import API, RuledSandbox


def test_an_allowed_name_is_reached_by_tls_http_and_other_protocols(sandbox: RuledSandbox) -> None:
    found = sandbox.ask((API, 443), (API, 80), (API, 8080), (API, PORT), ("six.example.org", PORT))
    assert [f"OUT GET / HTTP/1.1 host={API}" in answer for answer in found[:3]] == [True] * 3
    assert found[3:] == ["OUT hello from 93.184.215.14\n", "OUT hello from 2606:2800:21f::16\n"]


def test_a_rule_without_a_port_is_https_and_refusals_say_why(sandbox: RuledSandbox) -> None:
    files = "files.example.org"
    get = b"GET / HTTP/1.1\r\n\r\n"
    found = sandbox.ask((files, 443), (files, 80), (API, 81, get), ("evil.example.net", 443), (API, 22, b""))
    assert "OUT" in found[0]
    assert found[1].startswith("HTTP/1.1 403 ")
    assert f"agent-dev: {files}:80: no rule allows it" in found[1]
    assert f"agent-dev: {API}:81: no rule allows it" in found[2]
    assert found[3] == "TLSV1_ALERT_ACCESS_DENIED"
    assert found[4] == "ECONNRESET"


def test_a_wildcard_allows_names_below_it_and_deny_wins(agent_dev: AgentDev) -> None:
    hosts = ("api.example.org", "files.example.org", "evil.example.net", "example.org")
    code = CLIENT + f"print(json.dumps(ask_all(*((host, {PORT}) for host in {hosts}))))"
    words = ("--net", "allow", "--allow", f"*.example.org:{PORT}", "--deny", "files.example.org")
    found = agent_dev.run_python_inside(code, *words, before=in_internet())
    assert ["OUT" in answer for answer in found] == [True, False, False, False]


def test_an_address_a_private_name_and_a_local_port_are_reached(sandbox: RuledSandbox) -> None:
    found = sandbox.ask(
        *((host, PORT) for host in ("93.184.215.15", "2606:2800:21f::16", "corp.example.org", "localhost")),
        ("127.0.0.1", LOCAL_PORT),
        ("10.9.8.7", PORT),
    )
    assert ["OUT" in answer for answer in found] == [True, True, True, True, False, False]
    assert found[4:] == ["ECONNREFUSED", "ECONNRESET"]


def test_a_unix_socket_is_reached_at_its_path(sandbox: RuledSandbox, agent_dev: AgentDev, tmp_path: Path) -> None:
    code = f"s = socket.socket(socket.AF_UNIX); s.connect({str(sandbox.socket)!r}); print(json.dumps('connected'))"
    assert sandbox.run(code) == "connected"
    done = agent_dev("--net", "allow", "--allow", f"unix:{tmp_path}/missing", "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert "No such file" in done.stderr


def test_two_rules_for_one_port_inside_start_nothing(agent_dev: AgentDev) -> None:
    one, same, other = "localhost:5432", "localhost:5432 as 5432", "localhost:99 as 5432"
    assert agent_dev("--net", "allow", "--allow", one, "--allow", same, "--", "true").returncode == 0
    done = agent_dev("--net", "allow", "--allow", one, "--allow", other, "--", "echo", "started")
    assert (done.returncode, done.stdout) == (125, "")
    assert f"allow: {one} and {other}: port 5432 inside can lead to only one port\n" in done.stderr


def test_dns_is_answered_over_udp_and_tcp_at_every_address(sandbox: RuledSandbox) -> None:
    code = f"""
query = struct.pack(">HHHHHH", 9, 0x100, 1, 0, 0, 0)
query += b"".join(bytes((len(part),)) + part.encode() for part in "{API}".split(".")) + b"\\0\\0\\1\\0\\1"
def answers(server, kind):
    try:
        with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, kind) as one:
            one.settimeout(10)
            one.connect((server, 53))
            one.sendall(query if kind == socket.SOCK_DGRAM else struct.pack(">H", len(query)) + query)
            return one.recv(4096)[-4]
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
servers = ("198.18.0.1", "127.0.0.1", "127.0.0.53", "198.18.0.2", "8.8.8.8", "::1", "fd00:ad::1", "2001:4860:4860::8888")
print(json.dumps([answers(one, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM) for one in servers]))
"""
    assert sandbox.run(code) == [28] * 16


def test_a_server_of_the_agent_on_its_own_loopback_works(sandbox: RuledSandbox) -> None:
    code = "s = socket.create_server(('127.0.0.1', 3000)); c = socket.create_connection(('localhost', 3000)); "
    code += "a, _ = s.accept(); a.sendall(b'own'); print(json.dumps(c.recv(9).decode()))"
    assert sandbox.run(code) == "own"


def test_http_pipelines_upgrades_and_half_closed_connections_work(sandbox: RuledSandbox) -> None:
    code = f"""
def request(path, more=b"", host=b"{API}"):
    return b"GET %b HTTP/1.1\\r\\nHost: %b\\r\\n%b\\r\\n" % (path, host, more)
def talk(*pieces):
    with socket.create_connection(("{API}", 80), 10) as one:
        answers = []
        for piece in pieces:
            one.sendall(piece)
            answers.append(one.recv(4000).decode())
        one.shutdown(socket.SHUT_WR)
        while data := one.recv(4000):
            answers.append(data.decode())
        return answers
up = request(b"/upgrade", b"Connection: upgrade\\r\\nUpgrade: websocket\\r\\n")
evil = request(b"/two", host=b"evil.example.net")
print(json.dumps([talk(request(b"/one"), request(b"/two")), talk(up, b"ping"), talk(request(b"/one"), evil)]))
"""
    plain, upgraded, denied = sandbox.run(code)
    assert ["/one" in plain[0], "/two" in plain[1]] == [True, True]
    assert upgraded == ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "ping"]
    assert "/one" in denied[0]
    assert denied[1].startswith("HTTP/1.1 403 ")
    assert "evil.example.net" in denied[1]


def test_large_transfers_arrive_whole(sandbox: RuledSandbox) -> None:
    code = f"""
import hashlib, threading
one = socket.create_connection(("{API}", 80), 20)
one.sendall(b"GET /upgrade HTTP/1.1\\r\\nHost: {API}\\r\\nUpgrade: websocket\\r\\n\\r\\n")
one.recv(4000)
data = bytes(range(256)) * 40000
threading.Thread(target=one.sendall, args=(data,)).start()
found = hashlib.sha256()
size = 0
while size < len(data):
    piece = one.recv(65536)
    size += len(piece)
    found.update(piece)
print(json.dumps(found.hexdigest() == hashlib.sha256(data).hexdigest()))
"""
    assert sandbox.run(code)


def gateway_of(launcher: int) -> int:
    """Return the launcher's child that holds the sandbox's sockets; 0 if there is none yet."""
    for pid in children(launcher):
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
        if "_ssl" in maps:
            return pid
    return 0


@pytest.mark.parametrize("victim", ["gateway", "launcher"])
def test_nothing_is_reachable_without_the_gateway(agent_dev: AgentDev, victim: str) -> None:
    code = (
        CLIENT
        + f"""
print(ask("127.0.0.1", {PORT}), flush=True)
sys.stdin.readline()
print(ask("127.0.0.1", {PORT}), ask("example.org", 443), flush=True)
"""
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        rule = f"localhost:{server.getsockname()[1]} as {PORT}"
        with agent_dev.start("--net", "allow", "--allow", rule, "--no-merge", "--", PYTHON, "-I", "-c", code) as process:
            assert process.stdout
            assert process.stdin
            connection, _ = server.accept()
            connection.sendall(b"OUT")
            connection.close()
            assert process.stdout.readline() == "OUT\n"
            gateway = wait_until(lambda: gateway_of(process.pid), "the gateway runs")
            os.kill(gateway if victim == "gateway" else process.pid, signal.SIGKILL)
            wait_until(
                lambda: not Path(f"/proc/{gateway}/maps").exists() or not Path(f"/proc/{gateway}/maps").read_bytes(), "it is gone"
            )
            if victim == "gateway":
                process.stdin.write("\n")
                process.stdin.flush()
                first, second = process.stdout.readline().split(maxsplit=1)
                assert first in ("ECONNREFUSED", "ECONNRESET")  # the latter if the gateway had just accepted
                assert "OUT" not in second
                assert process.stderr
                assert "gateway ended before the agent" in process.stderr.read()
            else:
                assert process.stdout.readline() == ""


def test_a_connection_of_the_first_moment_waits_for_the_gateway(agent_dev: AgentDev) -> None:
    code = "exec 3<>/dev/tcp/127.0.0.1/$0 && cat <&3; exec 3<>/dev/tcp/192.0.2.1/1 && cat <&3"
    with socket.create_server(("127.0.0.1", 0)) as server:
        rule = f"localhost:{server.getsockname()[1]} as {PORT}"
        with agent_dev.start("--net", "allow", "--allow", rule, "--", "bash", "-c", code, str(PORT)) as process:
            server.settimeout(20)
            connection, _ = server.accept()
            connection.sendall(b"OUT")
            connection.close()
            assert process.stdout
            assert process.stderr
            assert (process.stdout.read(), process.wait()) == ("OUT", 1)
            assert "192.0.2.1:1: no rule allows it" in process.stderr.read()


def test_settings_come_from_files_which_show_names(agent_dev: AgentDev) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    file = folder / "config.yaml"
    file.write_text(
        f"net: allow\nallow:\n  - api.example.org:{PORT}\n  - {{name: corp.example.org, ports: [{PORT}], private: true}}\n"
    )
    hosts = ("api.example.org", "corp.example.org", "files.example.org")
    found = agent_dev.run_python_inside(
        CLIENT + f"print(json.dumps(ask_all(*((host, {PORT}) for host in {hosts}))))", before=in_internet()
    )
    assert ["OUT" in answer for answer in found] == [True, True, False]
    shown = agent_dev.do("show", "--", "true")
    assert f"corp.example.org:{PORT} private" in shown
    assert f"{file}:4" in shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("allow: [a b]", "config.yaml:1: allow: a b is not a host name"),
        ("allow: example.org", "config.yaml:1: allow: must be a list, not text"),
        ("allow: [{name: a.b, port: 3}]", "unknown key (did you mean ports?)"),
        ("deny: ['localhost:80']", "cannot be denied"),
        ("net: alow", "alow is not one of host, none, allow, ask, learn (did you mean allow?)"),
    ],
)
def test_a_bad_rule_in_a_file_is_one_clear_line(agent_dev: AgentDev, text: str, problem: str) -> None:
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(text + "\n")
    done = agent_dev("--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("--net", "allow", "--allow", "a:b"), 2, "--allow: a:b: b is not a port"),
        (("--net", "allow", "--deny", "unix:/x"), 2, "cannot be denied"),
        (("--allow", "example.org"), 125, "--allow has no effect with net: host"),
        (("--net", "none", "--deny", "example.org"), 125, "--deny has no effect with net: none"),
        (("--net", "some"), 2, "expected host, none, allow, ask or learn"),
        (("--net", "alow"), 2, "hint: --net allow\n"),
    ],
)
def test_bad_options_are_one_clear_line(agent_dev: AgentDev, words: tuple[str, ...], code: int, problem: str) -> None:
    done = agent_dev(*words, "--", "true")
    assert (done.returncode, done.stdout) == (code, "")
    assert problem in done.stderr


def test_a_repository_grants_only_trusted_settings_and_may_restrict(agent_dev: AgentDev) -> None:
    file = agent_dev.repo / ".agent-dev.yaml"
    file.write_text(f"net: allow\nallow: ['*.example.org:{PORT}']\ndeny: [files.example.org]\n")
    hosts = ("api.example.org", "files.example.org", "corp.example.org")
    code = CLIENT + f"print(json.dumps(ask_all(*((host, {PORT}) for host in {hosts}))))"

    def reached(*words: str) -> list[bool]:
        return ["OUT" in answer for answer in agent_dev.run_python_inside(code, *words, before=in_internet())]

    assert reached("--net", "allow") == [False, False, False]
    agent_dev.do("trust", "--yes")
    assert reached() == [True, False, False]
    file.write_text(file.read_text().replace("deny", "# deny"))
    assert reached() == [False, False, False]
    assert reached("--allow", f"files.example.org:{PORT}", "--allow", f"api.example.org:{PORT}") == [True, False, False]


WITHOUT_H11 = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "h11" else find(name, *rest)
"""


def test_a_network_that_cannot_be_made_starts_no_agent(agent_dev: AgentDev, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(WITHOUT_H11)
    marker = tmp_path / "rw" / "started"
    marker.parent.mkdir()
    done = agent_dev("--net", "allow", "--rw", marker.parent, "--", "touch", marker, env={"PYTHONPATH": str(broken)})
    assert (done.returncode, marker.exists()) == (125, False)
    assert "the sandbox's network cannot be set up: h11 is not installed" in done.stderr
    assert agent_dev("--", "true", env={"PYTHONPATH": str(broken)}).returncode == 0


WITHOUT_KILL = "import _signal; _signal.pidfd_send_signal = lambda *_: None\n"


def _waits_at_a_pipe(pid: int) -> bool:
    with suppress(OSError):
        return "pipe_read" in Path(f"/proc/{pid}/wchan").read_text()
    return False


def test_the_agent_stays_blocked_when_the_launcher_gives_up(agent_dev: AgentDev, tmp_path: Path) -> None:
    """The launcher cannot kill the sandbox here: a kill takes effect some time after the launcher has gone on."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_H11 + WITHOUT_KILL)
    marker = tmp_path / "rw" / "started"
    marker.parent.mkdir()
    words = ("--net", "allow", "--rw", marker.parent, "--", "touch", marker)

    def is_blocked(launcher: int) -> bool:
        sandbox = filter(_waits_at_a_pipe, processes_inside(str(marker)))
        return _waits_at_a_pipe(launcher) and any(Path(f"/proc/{pid}/comm").read_text() == "bwrap\n" for pid in sandbox)

    with agent_dev.start(*words, env={"PYTHONPATH": str(tmp_path)}) as launcher:
        wait_until(lambda: marker.exists() or is_blocked(launcher.pid), "a launcher that waits for the sandbox's end")
        launcher.kill()
        wait_until(lambda: not processes(str(marker)), "the end of the sandbox")
    assert not marker.exists()


def test_a_broken_library_starts_no_agent_and_doctor_names_it(agent_dev: AgentDev, tmp_path: Path) -> None:
    library = tmp_path / "h11" / "__init__.py"
    library.parent.mkdir()
    library.write_text("raise AttributeError('wrong build')")
    reason = f"a library is broken: wrong build ({library})"
    done = agent_dev("--net", "allow", "--", "echo", "started", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (125, ""), done.stderr
    assert f"agent-dev: the sandbox's network cannot be set up: {reason}\n" in done.stderr
    assert reason in agent_dev("doctor", env={"PYTHONPATH": str(tmp_path)}).stdout


def test_proxy_variables_are_not_passed(agent_dev: AgentDev) -> None:
    code = "import json, os; print(json.dumps(os.environ.get('https_proxy')))"
    env = {"https_proxy": "http://user:secret@proxy.example.org:3128"}
    assert agent_dev.run_python_inside(code, "--net", "allow", env=env) is None
    assert json.dumps(agent_dev.run_python_inside(code, env=env)) != "null"


def test_an_ended_session_is_shown_with_its_own_rules(agent_dev: AgentDev) -> None:
    words = ("--no-merge", "--net", "allow", "--allow", f"{API}:{PORT}", "--", "sh", "-c", "echo x > made")
    assert agent_dev(*words, before=in_internet()).returncode == 0
    code = f"print(json.dumps([ask(host, {PORT}) for host in ('{API}', 'files.example.org')]))"
    done = agent_dev("exec", "--", PYTHON, "-I", "-c", CLIENT + code, before=in_internet())
    assert done.returncode == 0, done.stderr
    assert ["OUT" in answer for answer in json.loads(done.stdout)] == [True, False]
