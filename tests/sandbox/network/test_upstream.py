"""The gateway behind a proxy, and a company's authorities."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness.internet import CLIENT, LOCAL_PORT, PORT, in_internet, make_certificate
from tests.harness.program import AgentDev, contents
from tests.harness.servers.proxies import HTTP_PORT, PASSWORD, SOCKS_PORT, USER

API, INNER = "api.example.org", "inner.example.org"
RIGHT = f"{USER}:{quote(PASSWORD)}"
URLS = {"http": f"http://{{}}@127.0.0.1:{HTTP_PORT}", "socks5h": f"socks5h://{{}}@localhost:{SOCKS_PORT}"}


def configure(program: AgentDev, **values: object) -> Path:
    folder = Path(program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    rules = [f"*.example.org:443,{PORT}", f"[2606:2800:21f::16]:{PORT}", f"localhost:{LOCAL_PORT}"]
    path.write_text(json.dumps({"net": "allow", "allow": rules, **values}) + "\n")
    return path


def asked(program: AgentDev, *hosts: str, env: dict[str, str] | None = None) -> list[str]:
    code = f"print(json.dumps([ask(host, {PORT}) for host in {hosts}]))"
    found: list[str] = program.run_python_inside(CLIENT + code, before=in_internet(), env=env)
    return found


@pytest.mark.parametrize("kind", URLS)
def test_names_addresses_and_tls_go_through_the_proxy(agent_dev: AgentDev, kind: str) -> None:
    configure(agent_dev, net={"http": "allow", "socks5h": "learn"}[kind], upstream_proxy=URLS[kind].format(RIGHT))
    code = f"[ask('{INNER}', {PORT}), ask('2606:2800:21f::16', {PORT}), ask('{API}', 443), ask('localhost', {LOCAL_PORT})]"
    found = agent_dev.run_python_inside(CLIENT + f"print(json.dumps({code}))", before=in_internet())
    assert found[:2] == ["OUT hello from 93.184.215.15\n", "OUT hello from 2606:2800:21f::16\n"]
    assert ["OUT" in answer for answer in found] == [True] * 4


@pytest.mark.parametrize("kind", URLS)
def test_a_wrong_password_reaches_nothing_and_is_logged(agent_dev: AgentDev, kind: str) -> None:
    configure(agent_dev, upstream_proxy=URLS[kind].format(f"{USER}:wrong-secret"))
    code = f"open('new', 'w').close(); print(json.dumps(ask('{INNER}', {PORT})))"
    assert agent_dev.run_python_inside(CLIENT + code, "--no-merge", before=in_internet()) == "ECONNRESET"
    (row,) = json.loads(agent_dev.do("log", "--network", "--json"))["connections"]
    assert row["problem"].startswith("the proxy rejected the user and password")
    assert [path for path, text in contents(agent_dev.state).items() if b"wrong-secret" in text] == []


def test_exceptions_and_private_names_do_not_go_through_the_proxy(agent_dev: AgentDev) -> None:
    configure(agent_dev, upstream_proxy=URLS["http"].format("x:y"), no_proxy=["files.example.org"])
    found = asked(agent_dev, "files.example.org", "loop.example.org", "corp.example.org")
    assert ["OUT" in answer for answer in found] == [True, False, False]


def test_the_proxy_of_the_environment_is_used_and_never_passed(agent_dev: AgentDev) -> None:
    configure(agent_dev)
    env = {"https_proxy": URLS["http"].format(RIGHT), "no_proxy": "files.example.org"}
    assert ["OUT" in answer for answer in asked(agent_dev, INNER, "files.example.org", env=env)] == [True, True]
    code = "import json, os, pathlib; print(json.dumps([dict(os.environ), pathlib.Path('/proc/self/mountinfo').read_text()]))"
    assert quote(PASSWORD) not in json.dumps(agent_dev.run_python_inside(code, env=env, before=in_internet()))
    shown = agent_dev("show", "--", "true", env=env).stdout
    assert f"http://{USER}:…@127.0.0.1:{HTTP_PORT}" in shown
    assert quote(PASSWORD) not in shown
    configure(agent_dev, upstream_proxy="none")
    assert "OUT" not in asked(agent_dev, INNER, env=env)[0]


def test_an_unusable_proxy_starts_nothing(agent_dev: AgentDev) -> None:
    configure(agent_dev)
    done = agent_dev("--", "echo", "started", env={"https_proxy": "https://u:secret@proxy.example.org"})
    assert (done.returncode, done.stdout, "secret" in done.stderr) == (125, "", False)
    assert "https_proxy: a proxy is written http://HOST:PORT" in done.stderr
    configure(agent_dev, upstream_proxy="proxy.example.org:3128")
    assert "config.yaml:1: upstream_proxy: a proxy is written" in agent_dev("--", "true").stderr


@pytest.mark.parametrize("words", [("config",), ("config", "--json"), ("show", "--", "true")])
def test_the_password_of_a_proxy_is_not_printed(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    configure(agent_dev, upstream_proxy="http://ada:canary@proxy.example.org:3128")
    text = agent_dev.do(*words)
    assert ("proxy.example.org:3128" in text, "canary" in text) == (True, False)


def test_programs_inside_trust_the_authorities_of_upstream_ca(agent_dev: AgentDev, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    pem = certificate.read_text().partition("-----BEGIN PRIVATE")[0]
    extra = tmp_path / "company.pem"
    extra.write_text(pem)
    configure(agent_dev, upstream_ca=str(extra))
    code = """
import json, os, ssl
system = open('/etc/ssl/certs/ca-certificates.crt').read()
print(json.dumps([system, open(os.environ['NODE_EXTRA_CA_CERTS']).read(), ssl.get_default_verify_paths().cafile]))
"""
    system, bundle, default = agent_dev.run_python_inside(code)
    assert system == bundle
    assert bundle.endswith(pem.strip() + "\n")
    assert len(bundle) > len(pem) + 10_000
    assert default == "/run/agent-dev/ca-bundle.crt"


@pytest.mark.parametrize(("text", "problem"), [(None, "No such file"), ("x", "has no certificate")])
def test_a_bad_file_of_authorities_starts_nothing(agent_dev: AgentDev, tmp_path: Path, text: str | None, problem: str) -> None:
    path = tmp_path / "ca.pem"
    if text:
        path.write_text(text)
    configure(agent_dev, upstream_ca=str(path))
    done = agent_dev("--", "echo", "started")
    assert (done.returncode, done.stdout, problem in done.stderr) == (125, "", True)
