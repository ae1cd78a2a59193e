"""Real agents, each installed once by `agent-dev install` in the home of a user of its own, which is kept between runs.

The installation is kept at one path, because scripts of npm and pip contain it. All else in the home is new in each run.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agent_dev.agents.install_script import newest_command
from tests.conftest import lay_out_home, lay_out_repository
from tests.harness.agents.scripted import VERSIONS
from tests.harness.program import AgentDev, wait_until
from tests.harness.reference.agents_table import entry_of

INSTALL_AGAIN = os.environ.get("AGENT_DEV_TEST_INSTALL") == "1"
PYTHON = os.environ.get(
    "AGENT_DEV_TEST_PYTHON", ""
)  # the prefix of a newer Python than the distribution's, for agents that need it
CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
INDEXES = ("NPM_CONFIG_REGISTRY", "PIP_INDEX_URL")
_MARK = "installed-by-tests"


@contextmanager
def user_of(agent: str) -> Iterator[AgentDev]:
    """Yield the program as run by the user who has this agent, or can install it; other test processes wait."""
    default = Path.home() / ".cache/agent-dev-tests"
    place = Path(os.environ.get("AGENT_DEV_TEST_CACHE") or default) / "agents" / f"{agent}-{VERSIONS[agent]}"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept, used = place / "installation", place / "user"
        _put_away(used, kept)
        if INSTALL_AGAIN:
            shutil.rmtree(kept, ignore_errors=True)
        program = _lay_out(used)
        if kept.exists():
            kept.rename(_installation(used))
        try:
            yield program
        finally:
            _put_away(used, kept)


def is_installed(program: AgentDev) -> bool:
    """Return whether an earlier run, or an earlier test of this one, has installed the agent."""
    return (program.agent_home / ".local/agent" / _MARK).exists()


def install(program: AgentDev, agent: str) -> None:
    """Install an agent in its version, as a user would. Skips the test, in a strict run fails it, without the package index."""
    require_index(agent)
    settings = {name: os.environ[name] for name in (*CERTIFICATES, *INDEXES) if name in os.environ}
    done = program("install", agent, "--version", VERSIONS[agent], env=settings, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    (program.agent_home / ".local/agent" / _MARK).touch()


def require_index(agent: str) -> None:
    """Skip the test, in a strict run fail it, if the package index of an agent does not answer."""
    if not _has_index(agent):
        pytest.skip(f"{agent} is not kept from an earlier run, and its package index does not answer npm or pip")


def _has_index(agent: str) -> bool:
    once = {**os.environ, "NPM_CONFIG_FETCH_RETRIES": "0", "PIP_RETRIES": "0"}
    try:
        done = subprocess.run(newest_command(entry_of(agent)), capture_output=True, check=False, timeout=60, env=once)
    except subprocess.TimeoutExpired:
        return False
    return bool(done.stdout.strip())


def _installation(used: Path) -> Path:
    return used / "home/aihome/.local/agent"


def _lay_out(used: Path) -> AgentDev:
    used.mkdir()
    home = lay_out_home(used)
    _installation(used).parent.mkdir(0o700, parents=True)
    if PYTHON:  # where the program `pyenv` has one
        (home / ".pyenv/versions").mkdir(parents=True)
        (home / ".pyenv/versions/newer").symlink_to(PYTHON)
    return AgentDev(home, lay_out_repository(home))


def _put_away(used: Path, kept: Path) -> None:
    """Keep a complete installation, and remove all else."""
    made = _installation(used)
    if (made / _MARK).exists():
        shutil.rmtree(kept, ignore_errors=True)
        made.rename(kept)
    for folder, names, _ in os.walk(used):
        for path in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):  # agent-dev still removes a session
                if not path.is_symlink():
                    path.chmod(0o700)  # an agent may have made it read-only; overlayfs leaves one of mode 000

    def is_removed() -> bool:
        shutil.rmtree(used, ignore_errors=True)
        return not used.exists()

    wait_until(is_removed, "the user's files are removed")
