"""Real clients and servers through the gateway: databases, HTTP/2, SSH, git, package managers."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import find_redis
from tests.harness.internet import BRIDGE, in_internet, make_certificate
from tests.harness.program import AgentDev, wait_until
from tests.harness.servers.bridge import bridge
from tests.harness.servers.postgres import Postgres, postgres
from tests.harness.servers.registry import Registry
from tests.harness.servers.ssh_world import SSH, SshWorld, ssh_world
from tests.harness.servers.sshd import user


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate for localhost with its key; programs inside trust it as an authority."""
    folder = tmp_path_factory.mktemp("authority")
    folder.chmod(0o755)
    return make_certificate(folder, "localhost", "corp.example.org")


@pytest.fixture(scope="module")
def database(authority: Path) -> Iterator[Postgres]:
    with postgres(authority) as running:
        yield running


def allowing(*rules: str) -> list[str]:
    return ["--net", "allow", *(word for rule in rules for word in ("--allow", rule))]


def test_a_database_is_reached_by_tls_that_verifies_its_name(agent_dev: AgentDev, database: Postgres, authority: Path) -> None:
    public = agent_dev.repo / "ca.pem"
    public.write_text(authority.read_text().partition("-----BEGIN PRIVATE")[0])
    text = f"host=localhost port={database.port} user={database.user} dbname=postgres sslmode=verify-full sslrootcert={public}"
    words = ("psql", "-X", "-A", "-t", text, "-c", "select ssl from pg_stat_ssl where pid = pg_backend_pid()")
    done = agent_dev(*allowing(f"localhost:{database.port}"), "--", *words)
    assert done.stdout.strip() == "t", done.stderr
    other = agent_dev(
        *allowing(f"localhost:{database.port}"), "--", *words[:4], text.replace("localhost", "127.0.0.1"), "-c", "select 1"
    )
    assert "does not match host name" in other.stderr


def test_a_database_is_reached_by_the_name_of_its_machine(
    agent_dev: AgentDev, database: Postgres, authority: Path, tmp_path: Path
) -> None:
    public = agent_dev.repo / "ca.pem"
    public.write_text(authority.read_text().partition("-----BEGIN PRIVATE")[0])
    text = f"host=corp.example.org user={database.user} dbname=postgres sslmode=verify-full sslrootcert={public}"
    words = ("psql", "-X", "-A", "-t", text, "-c", "select ssl from pg_stat_ssl where pid = pg_backend_pid()")
    env, *others = in_internet()
    with bridge(database.port, tmp_path / "bridge"):
        before = (env, f"{BRIDGE}={tmp_path / 'bridge'}", *others)
        done = agent_dev(*allowing("corp.example.org:5432 private"), "--", *words, before=before)
    assert done.stdout.strip() == "t", done.stderr


def test_a_database_is_reached_by_its_socket_alone(agent_dev: AgentDev, database: Postgres) -> None:
    words = allowing(f"unix:{database.socket}")
    assert agent_dev(*words, "--", *database.psql("select 6 * 7", by_socket=True)).stdout.strip() == "42"
    assert "refused" in agent_dev(*words, "--", *database.psql("select 6 * 7")).stderr


@pytest.mark.only_redis
def test_redis_is_reached_at_its_usual_port_inside(agent_dev: AgentDev, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = tmp_path / "redis-server"
    program.symlink_to(find_redis())
    words: list[str | Path] = [
        program,
        "--bind",
        "127.0.0.1",
        "--port",
        str(port),
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        tmp_path,
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: _listens(port), "redis listens")
            done = agent_dev(*allowing(f"localhost:{port} as 6379"), "--", "redis-cli", "incr", "visits")
            assert done.stdout.strip() == "1", done.stderr
        finally:
            server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


_H2_SERVER = """
const fs = require('fs'), pem = fs.readFileSync(process.argv[2]);
require('http2').createSecureServer({key: pem, cert: pem}, (request, answer) =>
    answer.end(`${request.httpVersion} ${request.headers[':authority']}`)).listen(8443, '10.9.8.7');
"""
_H2_CLIENT = """
const client = require('http2').connect(process.argv[1], {rejectUnauthorized: false});
client.on('error', error => { console.log(error.code); process.exit(); });
const stream = client.request({':path': '/'});
stream.on('data', data => process.stdout.write(data));
stream.on('end', () => client.close());
"""


def test_http2_works_to_the_name_connected_to(agent_dev: AgentDev, tmp_path: Path) -> None:
    server = tmp_path / "server.js"
    server.write_text(_H2_SERVER)
    start = f"node {server} {make_certificate(tmp_path)} & for n in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.3; "
    start += '(: < /dev/tcp/10.9.8.7/8443) 2> /dev/null && break; done; "$@"; status=$?; kill %1; exit $status'
    before = (*in_internet(), "bash", "-c", start, "bash")
    words = (*allowing("corp.example.org:8443 private"), "--", "node", "-e", _H2_CLIENT, "https://corp.example.org:8443")
    assert agent_dev(*words, before=before).stdout == "2.0 corp.example.org:8443"


@pytest.fixture
def servers(agent_dev: AgentDev, tmp_path: Path) -> Iterator[SshWorld]:
    with ssh_world(agent_dev, tmp_path) as made:
        yield made


@pytest.mark.only_sshd
def test_git_clones_and_pushes_over_ssh_with_the_filtered_agent(servers: SshWorld, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
    servers.configure()
    path = Path(servers.program.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config = json.loads(path.read_text()) | {"net": "allow", "allow": [f"localhost:{servers.allowed.port}"]}
    path.write_text(json.dumps(config) + "\n")
    script = f"""
export GIT_SSH_COMMAND='{SSH} -p {servers.allowed.port}'
git clone -q {user()}@127.0.0.1:{bare} /tmp/clone && cd /tmp/clone && git checkout -q -b main
git -c user.email=a@b -c user.name=a commit -q --allow-empty -m one && git push -q origin main && git ls-remote origin main
"""
    done = servers.run(script)
    assert done.stdout.endswith("refs/heads/main\n"), done.stderr
    assert (
        subprocess.run(["git", "-C", bare, "log", "--format=%s", "main"], capture_output=True, text=True, check=True).stdout
        == "one\n"
    )


def test_git_clones_over_http_from_the_name_connected_to(agent_dev: AgentDev, tmp_path: Path) -> None:
    bare = tmp_path / "site/bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", agent_dev.repo, bare], check=True)
    subprocess.run(["git", "-C", bare, "update-server-info"], check=True)
    start = (
        f"cd {bare.parent}; python3 -m http.server --bind 10.9.8.7 8090 &> /dev/null & for n in 1 2 3 4 5 6 7 8; do sleep 0.3; "
    )
    start += '(: < /dev/tcp/10.9.8.7/8090) 2> /dev/null && break; done; "$@"; status=$?; kill %1; exit $status'
    before = (*in_internet(), "bash", "-c", start, "bash")
    clone = ("git", "clone", "-q", "http://corp.example.org:8090/bare.git", "/tmp/clone")
    done = agent_dev(*allowing("corp.example.org:8090 private"), "--", *clone, before=before)
    assert done.returncode == 0, done.stderr


def test_npm_and_pip_install_from_a_registry(agent_dev: AgentDev) -> None:
    with Registry() as registry:
        port = registry.url.rpartition(":")[2]
        script = f"""
npm_config_registry={registry.url} npm install --silent --no-audit --no-fund --prefix /tmp/n left && ls /tmp/n/node_modules
python3 -m venv /tmp/v && cd /tmp/v
bin/pip install -q --no-cache-dir --index-url {registry.url}/simple left && ls lib/*/site-packages
"""
        env = {name: None for name in os.environ if name.startswith("PIP_")}
        done = agent_dev(*allowing(f"localhost:{port}"), "--", "bash", "-c", script, env=env, timeout=120)
    assert done.stdout.split("\n")[0] == "left", done.stderr
    assert "left-1.0.dist-info" in done.stdout
