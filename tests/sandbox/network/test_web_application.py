"""A web application is developed inside, with packages of the real registry, the host's PostgreSQL, a browser outside, and git.

It needs Chromium, and AGENT_DEV_TEST_AGENTS, since it downloads packages.
"""

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.conftest import find_chromium
from tests.harness.internet import make_certificate
from tests.harness.program import AgentDev, wait_until
from tests.harness.servers.brokered_host import GIT, REAL
from tests.harness.servers.git_host import git_host
from tests.harness.servers.postgres import Postgres, postgres

pytestmark = [pytest.mark.only_chromium, pytest.mark.real_agents, pytest.mark.slow]
_PATIENCE = 180  # seconds for installing packages and for a browser
_NODE = {
    "package.json": '{"name": "shop", "private": true, "scripts": {"test": "node test.js", "dev": "node server.js"}}',
    "database.js": """
const {Client} = require('pg');
module.exports = async query => {
    const client = new Client({host: 'localhost', port: process.env.PGPORT, user: process.env.PGUSER, database: 'postgres'});
    await client.connect();
    try { return (await client.query(query)).rows; } finally { await client.end(); }
};
""",
    "test.js": """
const assert = require('assert'), query = require('./database');
(async () => {
    await query('create table if not exists visits (n int)');
    await query('insert into visits values (1)');
    assert.ok((await query('select count(*)::int as n from visits'))[0].n >= 1);
    console.log('tests passed');
})();
""",
    "server.js": """
const express = require('express'), query = require('./database'), app = express();
app.get('/api', async (_, response) => response.json(await query('select count(*)::int as n from visits')));
app.get('/', (_, response) => response.send(`<p id=out>loading</p><script>
fetch('/api').then(one => one.json()).then(rows => document.getElementById('out').textContent = 'visits in node: ' + rows[0].n);
</script>`));
app.listen(3000, '127.0.0.1', () => console.log('listens'));
""",
}
_PYTHON = {
    "test.py": """
import psycopg, os
with psycopg.connect(host="localhost", port=os.environ["PGPORT"], user=os.environ["PGUSER"], dbname="postgres") as one:
    one.execute("create table if not exists visits (n int)")
    one.execute("insert into visits values (1)")
    assert one.execute("select count(*) from visits").fetchone()[0] >= 1
print("tests passed")
""",
    "server.py": """
import psycopg, os
from flask import Flask, jsonify
app = Flask(__name__)
@app.get("/api")
def api():
    with psycopg.connect(host="localhost", port=os.environ["PGPORT"], user=os.environ["PGUSER"], dbname="postgres") as one:
        return jsonify(one.execute("select count(*) from visits").fetchone()[0])
@app.get("/")
def page():
    return '''<p id=out>loading</p><script>
fetch('/api').then(one => one.json()).then(n => document.getElementById('out').textContent = 'visits in python: ' + n);
</script>'''
print("listens", flush=True)
app.run("127.0.0.1", 3000)
""",
}
_PUSHES = f"""
git -c user.email=a@b -c user.name=a commit -q --allow-empty -m shop
git push -q https://{GIT}/shop.git HEAD:agent/shop && echo pushed
git push -q https://{GIT}/shop.git HEAD:main 2>&1 | grep -o 'agent-dev: .*'
"""
_SCRIPTS = {
    "node": f"npm install --silent --no-audit --no-fund express pg && npm test --silent\n{_PUSHES}\nexec npm run --silent dev",
    "python": "python3 -m venv .venv && .venv/bin/pip install -q flask 'psycopg[binary]' && .venv/bin/python test.py\n"
    f"{_PUSHES}\nexec .venv/bin/python server.py",
}


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def registry_hosts() -> list[str]:
    """Return the hosts of the registries that this machine's npm and pip use."""
    npm = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True, check=True).stdout
    code = "from pip._internal.models import index as i; print(i.PyPI.url, 'https://' + i.PyPI.file_storage_domain)"
    pip = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True, check=True).stdout
    texts = (npm, *pip.split(), os.environ.get("PIP_INDEX_URL", ""), os.environ.get("PIP_EXTRA_INDEX_URL", ""))
    return sorted({host for text in texts if (host := urlsplit(text.strip()).hostname)})


def configure(program: AgentDev, database: Postgres, proxy: str, certificate: Path) -> None:
    folder = Path(program.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True, exist_ok=True)
    rules = [*(f"{host}:443 private" for host in registry_hosts()), f"localhost:{database.port}"]
    authorities = folder / "authorities.pem"
    others = Path(os.environ["PIP_CERT"]).read_text() if os.environ.get("PIP_CERT") else ""
    authorities.write_text(certificate.read_text().partition("-----BEGIN PRIVATE")[0] + others)
    code = {"host": GIT, "variable": "GIT_KEY", "env": "MY_KEY", "user": "x-access-token", "push": ["agent/*"]}
    settings = {"net": "allow", "allow": rules, "credentials": {"code": code}, "upstream_ca": str(authorities)}
    settings |= {"upstream_proxy": proxy, "no_proxy": registry_hosts()}
    (folder / "config.yaml").write_text(json.dumps(settings) + "\n")


def browse(url: str, folder: Path) -> str:
    words = [
        find_chromium(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder}",
        "--virtual-time-budget=10000",
    ]
    return subprocess.run([*words, "--dump-dom", url], capture_output=True, text=True, timeout=_PATIENCE, check=True).stdout


@pytest.mark.parametrize(("kind", "files"), [("node", _NODE), ("python", _PYTHON)])
def test_a_web_application_is_developed_inside(
    agent_dev: AgentDev, database: Postgres, tmp_path: Path, kind: str, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (agent_dev.repo / name).write_text(text)
    bare, certificate = tmp_path / "served/shop.git", make_certificate(tmp_path, GIT)
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    with git_host(bare.parent, certificate) as proxy:
        configure(agent_dev, database, proxy, certificate)
        _develop(agent_dev, database, tmp_path, kind)
    refs = subprocess.run(["git", "-C", bare, "for-each-ref", "--format=%(refname)"], capture_output=True, text=True, check=True)
    assert refs.stdout == "refs/heads/agent/shop\n"


def _develop(agent_dev: AgentDev, database: Postgres, tmp_path: Path, kind: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [
        "--publish",
        f"{port}:3000",
        "--name",
        "shop",
        "--env",
        f"PGPORT={database.port}",
        "--env",
        f"PGUSER={database.user}",
    ]
    env: dict[str, str | None] = {name: None for name in os.environ if name.startswith("PIP_")}
    env["MY_KEY"] = REAL
    with agent_dev.start(*words, "--no-merge", "--", "sh", "-c", _SCRIPTS[kind], env=env) as process:
        assert process.stdout
        try:
            lines = [wait_until(process.stdout.readline, "a line", _PATIENCE).strip() for _ in range(4)]
            assert [*lines[:2], lines[3]] == ["tests passed", "pushed", "listens"]
            assert lines[2].startswith(f"agent-dev: {GIT}: a push to refs/heads/main is not allowed, only to agent/*")
            (listed,) = agent_dev.status()["published"]
            assert listed["url"] == f"http://shop.localhost:{port}"
            pages = (browse(listed["url"], tmp_path / f"chromium-{n}") for n in range(5))
            assert any(re.search(rf"visits in {kind}: [1-9]", page) for page in pages)
        finally:
            process.terminate()
            process.communicate(timeout=60)
