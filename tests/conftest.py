"""Fixtures for tests of the whole program: a user's home, a repository in it, and the program; skips fail in strict runs."""

import atexit
import grp
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from agent_dev.config import load
from agent_dev.risk import load as risk_load
from tests.harness import scale
from tests.harness.faults import state_files
from tests.harness.program import AgentDev

# Assertions in helper modules are rewritten, too, so that a failure shows the compared values.
FOLDERS = ("containment", "disk", "expect", "faults", "histories", "sandbox", "tui", "unit")
pytest.register_assert_rewrite(*(f"tests.{folder}" for folder in FOLDERS))

IS_STRICT = os.environ.get("AGENT_DEV_TESTS_STRICT") == "1"

# A shell without job control starts background jobs with SIGINT and SIGQUIT ignored, and nohup ignores SIGHUP; all programs that
# the tests start would inherit that.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

# Temporary directories that tests create themselves are below the directory that .ci/in-memory sets for pytest's.
tempfile.tempdir = os.environ.get("PYTEST_DEBUG_TEMPROOT")

# How long an example takes depends on the load of the machine, so that no test has a deadline.
settings.register_profile("agent-dev", deadline=None, max_examples=max(10, min(scale.SCALE, 100)))
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


def has_new_bwrap() -> bool:
    words = [os.environ.get("AGENT_DEV_BWRAP") or shutil.which("bwrap") or "bwrap", "--version"]
    version = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]
    return tuple(map(int, version.split("."))) >= (0, 12)


def has_sshd() -> bool:
    """Return whether the tests can run an sshd; no setup script installs one, since its package starts a service on the network.

    An ordinary user's sshd cannot work where terminals do not belong to the group tty: only root may give them to it.
    """
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if not all(shutil.which(program, path=path) for program in ("ssh", "ssh-keygen", "sshd")):
        return False
    ends = os.openpty()
    group = os.fstat(ends[1]).st_gid
    for end in ends:
        os.close(end)
    return os.getuid() == 0 or group == grp.getgrnam("tty").gr_gid


def has_podman() -> bool:
    """Return whether an agent of this user can run containers; root's cannot."""
    programs = all(map(shutil.which, ("podman", "crun", "slirp4netns")))
    return os.getuid() != 0 and programs and os.access("/dev/net/tun", os.R_OK | os.W_OK)


def has_rootless_podman() -> bool:
    """Return whether this user can start containers with several user IDs."""
    runtime = "crun" if has_cgroups_of_version_2() else "runc"
    if os.getuid() == 0 or not all(map(shutil.which, ("podman", "newuidmap", runtime))):
        return False
    user = pwd.getpwuid(os.getuid()).pw_name
    return any(line.startswith(f"{user}:") for line in Path("/etc/subuid").read_text().splitlines())


def has_cgroups_of_version_2() -> bool:
    """Return whether this machine has control groups of version 2 only; crun refuses both versions together."""
    return os.path.exists("/sys/fs/cgroup/cgroup.controllers")


def find_chromium() -> str:
    """Return a program that is Chromium, "" for none; no setup script installs one, since it is larger than all the others."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")


def find_redis() -> str:
    """Return a program that is a Redis server if its name is that, "" for none.

    Debian's `redis-server` is a link to another package's `redis-check-rdb`, and that package starts no service.
    """
    return next(filter(None, map(shutil.which, ("redis-server", "redis-check-rdb"))), "")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only_root: of what only root may do, such as mounting; not in an ordinary user's run")
    config.addinivalue_line("markers", "only_new_bwrap: of what needs bubblewrap 0.12; not in a run with an older one")
    config.addinivalue_line("markers", "slow: takes more than five seconds; not in a run of a share of the tests")
    config.addinivalue_line("markers", "real_agents: downloads agents; only if AGENT_DEV_TEST_AGENTS asks for them")
    config.addinivalue_line("markers", "only_chromium: of what needs a browser, Chromium; not in a run without one")
    config.addinivalue_line("markers", "only_redis: of what needs a Redis server; not in a run without")
    config.addinivalue_line("markers", "only_dunst: of what needs a notification daemon and an X server; not in a run without")
    config.addinivalue_line("markers", "only_x11: of what needs Xvfb and xclip; not in a run without")
    config.addinivalue_line("markers", "only_wayland: of what needs sway, which refuses root, and wl-copy; not in a run without")
    config.addinivalue_line("markers", "only_podman: of containers in the sandbox; only for an ordinary user who has podman")
    config.addinivalue_line("markers", "only_rootless_podman: of agent-dev in a container; only for a user who can start one")
    config.addinivalue_line("markers", "only_sshd: of what needs an OpenSSH server; not in a run without one that can work")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that this run cannot execute (a skip would look like a missing requirement) or that a short run omits."""
    can_run = {
        "only_root": os.getuid() == 0,
        "only_new_bwrap": has_new_bwrap(),
        "only_sshd": has_sshd(),
        "only_podman": has_podman(),
        "only_rootless_podman": has_rootless_podman(),
        "only_redis": bool(find_redis()),
        "only_chromium": bool(find_chromium()),
        "only_dunst": all(map(shutil.which, ("dunst", "notify-send", "dbus-daemon", "dbus-send", "Xvfb"))),
        "only_x11": all(map(shutil.which, ("Xvfb", "xclip"))),
        "only_wayland": os.getuid() != 0 and all(map(shutil.which, ("sway", "wl-copy", "wl-paste"))),
        "slow": scale.SCALE >= scale.EVERY_TEST,
        "real_agents": bool(os.environ.get("AGENT_DEV_TEST_AGENTS")),
    }
    omitted = [name for name, is_included in can_run.items() if not is_included]
    selected = scale.sample(item for item in items if not any(map(item.get_closest_marker, omitted)))
    left_out = [item for item in items if item not in selected]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in selected]


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
    """Create a user's home in a directory: a git configuration, secrets, and a cache of parsed files."""
    home = folder / "home"
    home.mkdir(0o755)
    (home / ".gitconfig").write_text(GITCONFIG)
    for name in (".ssh/id_ed25519", ".aws/credentials"):
        (home / name).parent.mkdir(0o700)
        (home / name).write_text("canary-of-the-real-home\n")
    lay_out_cache(folder / "cache")
    return home


def lay_out_cache(folder: Path) -> None:
    """Create a user's cache of parsed files."""
    kept = folder / "agent-dev"
    kept.mkdir(0o700, parents=True)
    for name, data in parsed().items():
        (kept / name).write_bytes(data)
        (kept / name).chmod(0o600)


@pytest.fixture(scope="session", autouse=True)
def rules_read_once() -> Iterator[None]:
    """Read the shipped risk rules once for the thousands of reviews without a home: reading the YAML takes 80 ms each time."""
    read = risk_load.load_risk_rules
    shipped = cache(lambda: read({"HOME": os.devnull}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            risk_load, "load_risk_rules", lambda environ: shipped() if environ.get("HOME") == os.devnull else read(environ)
        )
        yield


@cache
def parsed() -> dict[str, bytes]:
    """Return the cache after the shipped profile and rules were parsed: file → bytes. Parsing takes a third of a first start."""
    with tempfile.TemporaryDirectory() as place:
        environ = {"HOME": place, "XDG_CACHE_HOME": place}
        load.load_settings(load.SettingsRequest(load.DEFAULT_PROFILE, place, environ))
        risk_load.load_risk_rules(environ)
        return {path.name: path.read_bytes() for path in Path(place).glob("agent-dev/*.json")}


def lay_out_repository(home: Path) -> Path:
    """Create a git repository with two commits in a home, `~/src/shop`."""
    repo = home / "src" / "shop"
    shutil.copytree(repository_template(), repo, symlinks=True)
    AgentDev(home, repo).git("update-index", "--refresh")  # the copies have other inodes
    return repo


@cache
def repository_template() -> Path:
    """Return a repository to copy, made once a process: a thousand tests need one, and git takes six calls to create it."""
    folder = Path(tempfile.mkdtemp(prefix="agent-dev-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    repo = folder / "shop"
    (repo / "sub" / "deep").mkdir(parents=True)
    program = AgentDev(lay_out_home(folder), repo)
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
    """Return the user's home, with a git configuration and secrets."""
    return lay_out_home(tmp_path)


@pytest.fixture
def repo(home: Path) -> Path:
    """Return the path of a git repository with two commits in the home, `~/src/shop`."""
    return lay_out_repository(home)


@pytest.fixture
def agent_dev(home: Path, repo: Path) -> Iterator[AgentDev]:
    """Yield the program as this user runs it in this repository; it must leave no file that the tests of damage do not know."""
    program = AgentDev(home, repo)
    yield program
    unknown = [*map(str, state_files.find_unknown(program.state, home.parent / "cache" / "agent-dev"))]
    assert unknown == [], "add a row to tests/harness/faults/state_files.py"
