"""`credentials:`: keys that programs use without seeing them, against a TLS server that accepts the real key alone."""

import json
import os
import signal
import subprocess
from pathlib import Path
from secrets import randbelow
from typing import Any

import pytest

from agent_dev.linux.process import parent_pid
from tests.harness.internet import in_internet
from tests.harness.program import AgentDev, processes, wait_until
from tests.harness.servers.brokered_host import API, FOLDER, GIT, REAL

CLIENT = """
import http.client, json, os, socket, ssl
KEY = os.environ["API_KEY"]
HOST = "keys.example.org"
def ask(path="/v1", method="GET", body=None, port=80, **headers):
    kind = http.client.HTTPSConnection if port == 443 else http.client.HTTPConnection
    one = kind(HOST, port, timeout=20)
    one.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = one.getresponse()
    text = answer.read().decode()
    return json.loads(text) if text.startswith("{") else [answer.status, text]
"""


def words(folder: Path) -> tuple[str, ...]:
    """Return the words that run a command in the small internet with the server of keys."""
    env, *others = in_internet()
    return (env, f"{FOLDER}={folder}", *others)


def certificate() -> str:
    return next(word.partition("=")[2] for word in in_internet() if word.startswith("AGENT_DEV_TEST_CERTIFICATE="))


def configure(program: AgentDev, net: str = "allow", more: dict[str, Any] | None = None, **fields: Any) -> Path:
    folder = Path(program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True, exist_ok=True)
    api = {"host": API, "variable": "API_KEY", "base_url": "API_URL", "base_path": "/v1", "env": "MY_KEY", **fields}
    git = {"host": GIT, "variable": "GIT_KEY", "env": "MY_KEY", "user": "x-access-token", "push": ["agent/*"]}
    value = {"net": net, "upstream_ca": certificate(), "credentials": {"api": api, "code": git}, **(more or {})}
    path = folder / "config.yaml"
    path.write_text(json.dumps(value) + "\n")
    return path


def run(program: AgentDev, code: str, *options: str) -> Any:
    keywords = {"env": {"MY_KEY": REAL}, "before": words(program.home)}
    return program.run_python_inside(CLIENT + f"print(json.dumps({code}))", *options, **keywords)


def rows(program: AgentDev) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(program.do("log", "--network", "--json"))["connections"]
    return found


def test_the_stand_in_becomes_the_real_key_by_http_and_by_tls(agent_dev: AgentDev) -> None:
    configure(agent_dev)
    found = run(agent_dev, "[KEY, os.environ['API_URL'], *(ask(x_api_key=KEY, port=p) for p in (80, 443))]")
    key, url, *answers = found
    assert key != REAL
    assert len(key) == 40
    assert url == f"http://{API}/v1"
    assert [answer["headers"]["x-api-key"] for answer in answers] == ["(real)"] * 2
    assert [answer["headers"]["host"] for answer in answers] == [API] * 2


def test_bearer_basic_and_query_get_the_real_key(agent_dev: AgentDev) -> None:
    configure(agent_dev)
    code = "[ask(Authorization='Bearer ' + KEY), ask('/v1?key=' + KEY), "
    code += "ask(Authorization='Basic ' + __import__('base64').b64encode(b'me:' + KEY.encode()).decode())]"
    bearer, query, basic = run(agent_dev, code)
    assert bearer["headers"]["authorization"] == "Bearer (real)"
    assert query["path"] == "/v1?key=(real)"
    assert basic["headers"]["authorization"] == "me:(real)"


def test_another_key_is_refused_and_none_is_forwarded(agent_dev: AgentDev) -> None:
    configure(agent_dev)
    code = "[ask(x_api_key='sk-other'), ask(x_api_key=KEY, Authorization='Bearer other'), ask('/?key=other'), ask(), "
    code += "ask(x_api_key=KEY, Cookie='login=other'), ask(x_api_key=KEY, Host='git.example.org')]"
    *refused, plain, cookie, host = run(agent_dev, code)
    for status, text in refused:
        assert status == 403
        assert text == f"agent-dev: {API}: this key is not the stand-in key of this session\n"
    assert not {"authorization", "x-api-key"} & set(plain["headers"])
    assert "cookie" not in cookie["headers"]
    assert host[0] == 403


def test_a_request_without_a_key_gets_one_if_set(agent_dev: AgentDev) -> None:
    configure(agent_dev, without_key="inject", header="x-api-key", methods=["GET"], paths=["/v1/*"])
    code = "[ask('/v1/a'), ask('/v1/a', 'POST', 'x'), ask('/v2'), ask('/v1/../v2'), ask('/v1/%2e%2e/v2'), "
    code += "ask('/v1/b', Authorization='Bearer ' + KEY)]"
    plain, *refused, moved = run(agent_dev, code)
    assert plain["headers"]["x-api-key"] == "(real)"
    assert [answer[0] for answer in refused] == [403] * 4
    assert moved["headers"]["x-api-key"] == "(real)"
    assert "authorization" not in moved["headers"]


STREAMS = """
def talk(*pieces, port=80):
    with socket.create_connection((HOST, port), 20) as one:
        answers = []
        for piece in pieces:
            one.sendall(piece.replace(b"KEY", KEY.encode()))
            answers.append(one.recv(9000).decode())
        one.shutdown(socket.SHUT_WR)
        while data := one.recv(9000):
            answers[-1] += data.decode()
        return answers
HEAD = b"Host: keys.example.org\\r\\nx-api-key: KEY\\r\\n"
two = b"GET /one HTTP/1.1\\r\\n" + HEAD + b"\\r\\n" + b"GET /two HTTP/1.1\\r\\n" + HEAD + b"\\r\\n"
up = b"GET /up HTTP/1.1\\r\\nConnection: upgrade\\r\\nUpgrade: websocket\\r\\n" + HEAD + b"\\r\\n"
wait = b"POST /wait HTTP/1.1\\r\\nExpect: 100-continue\\r\\nContent-Length: 5\\r\\n" + HEAD + b"\\r\\n"
chunks = b"POST /chunks HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n" + HEAD
chunks += b"\\r\\n3\\r\\nabc\\r\\n4\\r\\ndefg\\r\\n0\\r\\n\\r\\n"
smuggled = b"POST / HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\nContent-Length: 5\\r\\n" + HEAD + b"\\r\\n0\\r\\n\\r\\n"
stream = http.client.HTTPConnection(HOST, timeout=10)
stream.request("GET", "/events", headers={"x-api-key": KEY})
response = stream.getresponse()
events = []
for _ in range(3):
    events.append(response.readline().decode())
    response.readline()
    ask("/seen", x_api_key=KEY)  # the host sends no other before
events.append(response.read().decode())
large = http.client.HTTPConnection(HOST)
large.request("GET", "/large/512", headers={"x-api-key": KEY})
size = 0
response = large.getresponse()
while data := response.read(1 << 16):
    size += len(data)
open("new", "w").close()
"""


def test_streams_pipelines_upgrades_and_bodies_of_every_kind(agent_dev: AgentDev) -> None:
    configure(agent_dev)
    code = "[talk(two), talk(up, b'ping'), talk(wait, b'hello'), talk(chunks), events, ask(method='HEAD', x_api_key=KEY), "
    code += "talk(smuggled), size]"
    program = CLIENT + STREAMS + f"print(json.dumps({code}))"
    found = agent_dev.run_python_inside(program, "--no-merge", env={"MY_KEY": REAL}, before=words(agent_dev.home))
    pipeline, upgraded, waited, chunked, events, head, smuggled, size = found
    assert pipeline[0].count("HTTP/1.1 200") == 2
    assert pipeline[0].index('"/one"') < pipeline[0].index('"/two"')
    assert upgraded[0].startswith("HTTP/1.1 101 ")
    assert upgraded[1] == "ping"
    assert waited[0].startswith("HTTP/1.1 100 ")
    assert '"body": 5' in waited[1]
    assert '"body": 7' in chunked[0]
    assert events == ["data: 0\n", "data: 1\n", "data: 2\n", ""]
    assert head == [200, ""]
    assert smuggled[0].startswith("HTTP/1.1 403 ")
    assert size == 512 << 16
    requests = [(row["method"], row["path"], row["status"]) for row in rows(agent_dev) if "method" in row]
    assert ("GET", "/large/512", 200) in requests
    assert ("GET", "/up", 101) in requests
    assert len(requests) == 12


def test_git_pushes_only_the_branches_that_a_pattern_names(agent_dev: AgentDev) -> None:
    bare = agent_dev.home / "served.git"
    subprocess.run(["git", "init", "-q", "--bare", bare, "-b", "main"], check=True)
    configure(agent_dev)
    script = f"""
    export GIT_CONFIG_GLOBAL=/tmp/gitconfig
    git config --global user.email a@b; git config --global user.name a
    cd /tmp; git init -q one -b main; cd one; echo one >f; git add f; git commit -qm one; git tag v1
    git remote add origin https://{GIT}/served.git
    try() {{ git push "$@" 2>&1 | grep -o 'agent-dev: .*' || echo passed; }}
    try origin main:agent/one; try origin main; try origin v1; try origin :agent/one; try -f origin main:agent/one main
    for version in 0 1 2; do
        git config protocol.version $version
        git push -q origin main:agent/v$version && git ls-remote -q origin agent/v$version
    done
    git -c http.postBuffer=1 push -q origin main:agent/chunked && echo chunked
    git ls-remote origin | cut -f2
    """
    done = agent_dev("--", "sh", "-c", script, env={"MY_KEY": REAL}, before=words(agent_dev.home))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "passed", done.stdout + done.stderr
    assert f"agent-dev: {GIT}: a push to refs/heads/main is not allowed, only to agent/*" in lines[1]
    assert "a push to refs/tags/v1 is not allowed" in lines[2]
    assert "deleting refs/heads/agent/one is not allowed" in lines[3]
    assert "a push to refs/heads/main is not allowed" in lines[4]
    refs = subprocess.run(["git", "-C", bare, "for-each-ref", "--format=%(refname)"], capture_output=True, text=True, check=True)
    assert "chunked" in lines
    versions = {f"refs/heads/agent/v{version}" for version in range(3)}  # of git's protocol
    assert {"refs/heads/agent/one", "refs/heads/agent/chunked", *versions} <= set(refs.stdout.split())
    assert versions <= {line.partition("\t")[2] for line in lines}
    assert not {"refs/heads/main", "refs/tags/v1"} & set(refs.stdout.split())


def test_show_and_why_name_the_credential_and_no_key(agent_dev: AgentDev) -> None:
    path = configure(agent_dev)
    shown = agent_dev("show", "--all", "--", "true", env={"MY_KEY": REAL})
    assert f"api: {API}, $API_KEY is a stand-in for $MY_KEY" in shown.stdout
    assert f"{path}:1" in shown.stdout
    assert "API_KEY=STAND-IN-KEY" in shown.stdout
    assert REAL not in shown.stdout + shown.stderr
    assert f"with the credential api: {API}" in agent_dev.do("why", API)


def test_show_fails_as_the_run_does_without_the_key_and_runs_no_command(agent_dev: AgentDev) -> None:
    marker = agent_dev.home / "ran"
    for source in ({"env": "MY_KEY"}, {"file": f"{agent_dev.home}/missing"}, {"command": ["no-such-program"]}):
        _configure_source(agent_dev, source)
        shown, run = agent_dev("show", "--json", "bash"), agent_dev("bash", "-c", "true")
        assert (shown.returncode, run.returncode, shown.stderr) == (1, 125, run.stderr)
        assert shown.stderr.splitlines()[-1].startswith("agent-dev: hint: export the variable")
    _configure_source(agent_dev, {"command": ["touch", str(marker)]})
    assert (agent_dev("show", "bash").returncode, marker.exists()) == (0, False)
    assert agent_dev("--net", "none", "show", "bash").returncode == 0


def test_doctor_gives_the_hint_of_a_run_without_a_key(agent_dev: AgentDev) -> None:
    _configure_source(agent_dev, {"env": "MY_KEY"})
    findings = {one["check"]: one for one in json.loads(agent_dev("doctor", "--json").stdout)["findings"]}
    assert "MY_KEY is not set in your environment" in findings["profile bash"]["result"]
    assert findings["profile bash"]["hint"].startswith("export the variable")


def test_without_a_gateway_no_key_is_passed_and_a_notice_says_so(agent_dev: AgentDev) -> None:
    configure(agent_dev, net="host", more={"env": ["MY_KEY", "API_KEY"]})
    done = agent_dev("--", "sh", "-c", "echo [$MY_KEY$API_KEY]", env={"MY_KEY": REAL, "API_KEY": REAL})
    assert done.stdout == "[]\n"
    assert "credentials api, code: not used with net: host" in done.stderr


def test_a_key_comes_from_a_file_or_a_command_or_nothing_starts(agent_dev: AgentDev) -> None:
    file = agent_dev.home / "key"
    file.write_text(REAL + "\n")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"file": str(file)}, "is open to other users: chmod 600"),
        ({"file": f"{agent_dev.home}/missing"}, "No such file or directory"),
        ({"file": f"{agent_dev.repo}/README.md"}, "is readable to the agent"),
        ({"command": ["sh", "-c", f"echo {REAL}; exit 3"]}, "sh exited with status 3"),
        ({"command": ["true"]}, "has no key"),
        ({"command": ["no-such-program"]}, "no-such-program is not found"),
    ]
    file.chmod(0o644)
    for source, reason in cases:
        _configure_source(agent_dev, source)
        done = agent_dev("--", "true")
        assert (done.returncode, reason in done.stderr, REAL in done.stderr) == (125, True, False), done.stderr
    file.chmod(0o600)
    for source in ({"file": str(file)}, {"command": ["cat", str(file)]}):
        _configure_source(agent_dev, source)
        code = CLIENT + "print(json.dumps(ask(x_api_key=KEY)['headers']['x-api-key']))"
        assert agent_dev.run_python_inside(code, before=words(agent_dev.home)) == "(real)"


def test_with_a_broken_library_for_keys_nothing_starts(agent_dev: AgentDev, tmp_path: Path) -> None:
    configure(agent_dev)
    library = tmp_path / "lib" / "cryptography" / "__init__.py"
    library.parent.mkdir(parents=True)
    library.write_text("raise AttributeError('wrong build')")
    done = agent_dev("--", "echo", "started", env={"MY_KEY": REAL, "PYTHONPATH": f"{tmp_path}/lib"})
    assert (done.returncode, done.stdout) == (125, "")
    assert f"cannot be set up: a library is broken: wrong build ({library})" in done.stderr


@pytest.mark.parametrize("victim", ["launcher", "gateway"])
def test_a_command_that_reads_a_key_ends_with_who_wanted_it(agent_dev: AgentDev, victim: str) -> None:
    marker = f"60.{randbelow(10**12):012}"
    _configure_source(agent_dev, {"command": ["sleep", marker]})
    with agent_dev.start("--", "true") as process:
        (command,) = wait_until(lambda: processes(marker), "the command runs")
        os.kill(process.pid if victim == "launcher" else parent_pid(command), signal.SIGKILL)
        wait_until(lambda: not processes(marker), "the command has ended")
        assert process.wait(20) == (-signal.SIGKILL if victim == "launcher" else 125)


def _configure_source(program: AgentDev, source: dict[str, Any]) -> None:
    api = {"host": API, "variable": "API_KEY", **source}
    configure(program, more={"credentials": {"api": api}})
