"""What tests of the whole program share: a user's home, a repository in it, and the program. Skips fail in strict runs."""

import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from agent_dev.config import load
from tests.harness.program import AgentDev

# What stands beside the tests checks, too: what it compared is told as in a test.
FOLDERS = ("containment", "disk", "expect", "faults", "sandbox", "tui", "unit")
pytest.register_assert_rewrite(*(f"tests.{folder}" for folder in FOLDERS))

IS_STRICT = os.environ.get("AGENT_DEV_TESTS_STRICT") == "1"

# A shell without job control lets what it starts in the background ignore the keyboard's signals, nohup the hang-up, and so
# would all programs that the tests start.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# Where .ci/in-memory has pytest's folders, for those that tests make by themselves.
tempfile.tempdir = os.environ.get("PYTEST_DEBUG_TEMPROOT")

# An example is as slow as the machine is busy: time is no law of any of these tests.
settings.register_profile("agent-dev", deadline=None)
settings.load_profile("agent-dev")

GITCONFIG = """\
[user]
	name = Ada Lovelace
	email = ada@example.invalid
[init]
	defaultBranch = main
[alias]
	leaked = !echo leaked
[gc]
	auto = 0
"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only_root: of what only root may do, such as mounting; not in an ordinary user's run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, and have counted, what only root may do: a skip would be taken for something that is missing."""
    if os.getuid() == 0:
        return
    left_out = [item for item in items if item.get_closest_marker("only_root")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if IS_STRICT and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in a strict run: {report.longrepr}"
    return report


def lay_out_home(folder: Path) -> Path:
    """Make a user's home in a folder, with a git configuration, secrets, and a cache of what was parsed before."""
    home = folder / "home"
    home.mkdir(0o755)
    (home / ".gitconfig").write_text(GITCONFIG)
    for name in (".ssh/id_ed25519", ".aws/credentials"):
        (home / name).parent.mkdir(0o700)
        (home / name).write_text("canary-of-the-real-home\n")
    lay_out_cache(folder / "cache")
    return home


def lay_out_cache(folder: Path) -> None:
    """Make a user's cache that holds what was parsed before."""
    kept = folder / "agent-dev"
    kept.mkdir(0o700, parents=True)
    for name, data in parsed().items():
        (kept / name).write_bytes(data)
        (kept / name).chmod(0o600)


@pytest.fixture(scope="session", autouse=True)
def rules_read_once() -> Iterator[None]:
    """Read the shipped rules of risk once for the thousands of reviews without a home: each would read YAML for 80 ms."""
    read = load.risk_rules
    shipped = cache(lambda: read({"HOME": os.devnull}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "risk_rules", lambda environ: shipped() if environ.get("HOME") == os.devnull else read(environ))
        yield


@cache
def parsed() -> dict[str, bytes]:
    """Return what the cache holds once the shipped profile and rules were parsed: file → bytes; a third of a first start."""
    with tempfile.TemporaryDirectory() as place:
        environ = {"HOME": place, "XDG_CACHE_HOME": place}
        load.settings(load.Request(load.DEFAULT, place, environ))
        load.risk_rules(environ)
        return {path.name: path.read_bytes() for path in Path(place).glob("agent-dev/*.json")}


def lay_out_repository(home: Path) -> Path:
    """Make a git repository with two commits in a home, `~/src/shop`."""
    repo = home / "src" / "shop"
    (repo / "sub" / "deep").mkdir(parents=True)
    program = AgentDev(home, repo)
    program.git("init", "-q")
    (repo / "README.md").write_text("# Shop\n")
    (repo / "sub" / "app.py").write_text("print('one')\n")
    (repo / "sub" / "deep" / "note.txt").write_text("deep\n")
    program.git("add", "-A")
    program.git("commit", "-q", "-m", "Start the shop")
    (repo / "sub" / "app.py").write_text("print('two')\n")
    program.git("commit", "-q", "-a", "-m", "Count to two")
    return repo


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's home, with a git configuration and secrets."""
    return lay_out_home(tmp_path)


@pytest.fixture
def repo(home: Path) -> Path:
    """A git repository with two commits in the home, `~/src/shop`."""
    return lay_out_repository(home)


@pytest.fixture
def agent_dev(home: Path, repo: Path) -> AgentDev:
    """The program as this user runs it in this repository."""
    return AgentDev(home, repo)
