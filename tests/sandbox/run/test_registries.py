"""`npm install` and `pip install` inside, from a local registry: the package caches of the home stay unchanged."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.program import PYTHON, AgentDev, tree
from tests.harness.servers.registry import Registry
from tests.sandbox.run.test_everyday_work import needs, work

QUIET = "--no-audit --no-fund --no-update-notifier"
INSTALL = f"npm install {QUIET} --registry={{url}} left >&2"
SHOP = """echo '{"name": "shop", "version": "1.0.0"}' >package.json"""
TARBALL, WHEEL = "/left/-/left-1.0.0.tgz", "/files/left-1.0-py3-none-any.whl"


@pytest.fixture
def registry() -> Iterator[Registry]:
    """Yield a registry with one package for each of npm and pip."""
    with Registry() as made:
        yield made


def test_npm_installs_from_a_registry_and_leaves_the_homes_cache_unchanged(
    agent_dev: AgentDev, registry: Registry, home: Path, repo: Path
) -> None:
    needs("npm")
    (home / ".npm/_cacache").mkdir(parents=True)
    (home / ".npm/_cacache/canary").write_text("of the home\n")
    cache, before = tree(home / ".npm"), tree(repo)
    script = f"""
    {SHOP}; {INSTALL.format(url=registry.url)}
    npx --offline left; cat node_modules/left/hook
    cat ~/.npm/_cacache/canary; ls -d ~/.npm/_cacache/content-v2
    """
    printed = work(agent_dev, script, "--net", "host").splitlines()
    assert printed == ["left 1", "ran", "of the home", f"{home}/.npm/_cacache/content-v2"]
    assert registry.asked.count(TARBALL) == 1
    assert tree(home / ".npm") == cache
    assert tree(repo) == before
    changes = agent_dev.changes()
    assert (changes["package.json"], changes["package-lock.json"]) == ("added", "added")


def test_npm_uses_the_cache_of_the_home(agent_dev: AgentDev, registry: Registry, tmp_path: Path) -> None:
    needs("npm")
    outside = tmp_path / "outside"
    outside.mkdir()
    script = f"{SHOP}; {INSTALL.format(url=registry.url)}"
    subprocess.run(["bash", "-euc", script], cwd=outside, env=agent_dev.environment(), check=True, capture_output=True)
    assert registry.asked.count(TARBALL) == 1
    cache = tree(agent_dev.home / ".npm/_cacache")
    assert work(agent_dev, f"{script}; npx --offline left") == "left 1\n"
    assert registry.asked.count(TARBALL) == 1
    assert tree(agent_dev.home / ".npm/_cacache") == cache


@pytest.mark.slow
def test_pip_installs_from_an_index_and_leaves_the_homes_cache_unchanged(
    agent_dev: AgentDev, registry: Registry, home: Path, repo: Path
) -> None:
    (home / ".cache/pip").mkdir(parents=True)
    (home / ".cache/pip/canary").write_text("of the home\n")
    cache, before = tree(home / ".cache"), tree(repo)
    script = f"""
    {PYTHON} -m venv /tmp/venv; . /tmp/venv/bin/activate
    pip install -q --disable-pip-version-check --index-url {registry.url}/simple/ left >&2
    python -m left; cat "$(pip cache dir)/canary"; echo new >"$(pip cache dir)/canary"; ls "$(pip cache dir)/"
    """
    printed = work(agent_dev, script, "--net", "host").splitlines()
    assert printed[:2] == ["left 1", "of the home"]
    assert "canary" in printed[2:]
    assert registry.asked == ["/simple/left/", WHEEL]
    assert tree(home / ".cache") == cache
    assert tree(repo) == before


def test_without_a_network_no_registry_is_reachable(agent_dev: AgentDev, registry: Registry) -> None:
    needs("npm")
    script = f"{SHOP}; {INSTALL.format(url=registry.url)} --fetch-retries=0 && echo came; echo ended"
    done = agent_dev("--no-merge", "--net", "none", "--", "bash", "-uc", script, timeout=300)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert registry.asked == []
