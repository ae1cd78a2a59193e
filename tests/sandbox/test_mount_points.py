"""Mount points in the agent home (D26): what is in their way, and that nothing of them stays."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, tree, wait_until
from tests.sandbox.waiting import WAIT, command

Plant = Callable[[Path, Path], None]


def _link_to(prefix: str) -> Plant:
    def plant(place: Path, outside: Path) -> None:
        place.symlink_to(f"{prefix}{outside}")

    return plant


def _file(place: Path, _: Path) -> None:
    place.write_text("in the way\n")


def _fifo(place: Path, _: Path) -> None:
    os.mkfifo(place)


PLANTS = {
    "a link": _link_to(""),
    "a link for an older bubblewrap, old root": _link_to("/oldroot"),
    "a link for an older bubblewrap, new root": _link_to("/newroot"),
    "a dangling link": lambda place, outside: place.symlink_to(outside / "missing"),
    "a relative link": lambda place, outside: place.symlink_to(os.path.relpath(outside, place.parent)),
    "a file": _file,
    "a fifo": _fifo,
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the host that no agent may reach."""
    outside = tmp_path / "outside"
    (outside / "shop").mkdir(parents=True)
    (outside / "kept").write_text("kept")
    return outside


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_what_is_in_the_way_of_the_roots_mount_point_is_refused(agent_dev: AgentDev, outside: Path, plant: Plant) -> None:
    agent_dev.agent_home.mkdir()
    plant(agent_dev.agent_home / "src", outside)
    before, home = tree(outside), tree(agent_dev.agent_home)
    done = agent_dev("--", "echo", "ran")
    assert (done.returncode, done.stdout) == (125, "")
    assert str(agent_dev.agent_home / "src") in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(outside) == before
    assert tree(agent_dev.agent_home) == home
    assert agent_dev.leavings() == []


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_what_is_in_the_way_of_the_roots_own_name_is_refused(agent_dev: AgentDev, outside: Path, plant: Plant) -> None:
    (agent_dev.agent_home / "src").mkdir(parents=True)
    plant(agent_dev.agent_home / "src/shop", outside)
    before, home = tree(outside), tree(agent_dev.agent_home)
    done = agent_dev("--", "echo", "ran")
    assert (done.returncode, done.stdout) == (125, "")
    assert str(agent_dev.agent_home / "src/shop") in done.stderr
    assert tree(outside) == before
    assert tree(agent_dev.agent_home) == home


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
@pytest.mark.parametrize("place", [".local", ".cache/pip"])
def test_a_link_in_the_way_of_a_tool_directory_leads_nowhere(
    agent_dev: AgentDev, outside: Path, plant: Plant, place: str
) -> None:
    command(agent_dev.home / ".local/bin/tool", "tool directory")
    (agent_dev.home / ".cache/pip").mkdir(parents=True)
    (agent_dev.agent_home / place).parent.mkdir(parents=True)
    plant(agent_dev.agent_home / place, outside)
    before, link = tree(outside), (agent_dev.agent_home / place).lstat()
    assert agent_dev("--", "true").returncode == 0  # it is the agent home's own, and not hidden
    assert tree(outside) == before
    assert (agent_dev.agent_home / place).lstat().st_ino == link.st_ino


@pytest.mark.parametrize("name", [".gitconfig", ".netrc", ".asdf/.netrc", ".npmrc"])
def test_a_link_where_a_file_is_masked_or_handed_in_leads_nowhere(agent_dev: AgentDev, outside: Path, name: str) -> None:
    (agent_dev.home / ".asdf").mkdir()
    (agent_dev.home / ".asdf/.netrc").write_text("canary")
    (agent_dev.agent_home / name).parent.mkdir(parents=True, exist_ok=True)
    (agent_dev.agent_home / name).symlink_to(f"/oldroot{outside}/kept")
    before = tree(outside)
    agent_dev("--", "true")
    assert tree(outside) == before


def second(agent_dev: AgentDev, name: str = "shelf") -> AgentDev:
    """Return the program in another repository of the same user's."""
    repo = agent_dev.home / "src" / name
    repo.mkdir()
    other = AgentDev(agent_dev.home, repo)
    other.git("init", "-q")
    (repo / "file").write_text("shelf\n")
    other.git("add", "-A")
    other.git("commit", "-q", "-m", "Begin")
    return other


def test_a_link_that_a_running_agent_plants_does_not_lead_the_next_start_out(agent_dev: AgentDev, outside: Path) -> None:
    other = second(agent_dev)
    before = tree(outside)
    script = f"mv ~/src ~/old && ln -s /oldroot{outside} ~/src; {WAIT}"
    with agent_dev.started("--", "sh", "-c", script) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        done = other("--", "echo", "ran")
        assert tree(outside) == before
        assert (agent_dev.agent_home / "src").is_symlink()
        assert (done.returncode, done.stdout) == (125, "")
        first.communicate("\n", timeout=60)
    assert tree(outside) == before


def test_two_sessions_in_one_home_keep_their_roots(agent_dev: AgentDev) -> None:
    other = second(agent_dev)
    script = f"{WAIT}; ls ~/src/shop"
    with agent_dev.started("--", "sh", "-c", script) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        assert other("--", "ls").stdout == "file\n"
        assert other("--", "ls", agent_dev.repo).stdout == ""
        out, _ = first.communicate("\n", timeout=60)
    assert out == "README.md\nsub\n"


def test_mount_points_go_when_the_last_session_is_gone_and_not_before(agent_dev: AgentDev) -> None:
    command(agent_dev.home / ".local/bin/tool", "tool directory")
    other = second(agent_dev)
    with agent_dev.started("--", "sh", "-c", f"{WAIT}; tool; cat ~/src/shop/README.md") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        assert other("--", "true").returncode == 0
        wait_until(lambda: len(agent_dev.leavings()) == 1, "the second session's files are gone")
        assert (agent_dev.agent_home / "src/shop").is_dir()
        out, _ = first.communicate("\n", timeout=60)
    assert out == "tool directory\n# Shop\n"
    wait_until(lambda: os.listdir(agent_dev.agent_home) == [], "the agent home is empty")


def test_a_directory_that_an_agent_used_stays(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo mine >~/src/mine; echo own >~/own")
    wait_until(lambda: agent_dev.leavings() == [], "the session's files are gone")
    wait_until(lambda: not (agent_dev.agent_home / "src/shop").exists(), "the mount point is gone")
    assert (agent_dev.agent_home / "src/mine").read_text() == "mine\n"
    assert (agent_dev.agent_home / "own").read_text() == "own\n"


def test_an_empty_directory_that_was_there_before_stays(agent_dev: AgentDev) -> None:
    (agent_dev.agent_home / "src/shop").mkdir(parents=True)
    agent_dev("--", "true")
    wait_until(lambda: agent_dev.leavings() == [], "the session's files are gone")
    assert (agent_dev.agent_home / "src/shop").is_dir()


def test_mount_points_of_a_killed_session_go_with_the_next(agent_dev: AgentDev) -> None:
    with agent_dev.started("--", "sh", "-c", WAIT) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        first.kill()
        first.wait(20)
    assert (agent_dev.agent_home / "src/shop").is_dir()
    second(agent_dev)("--", "true")
    wait_until(lambda: not (agent_dev.agent_home / "src").exists(), "the mount points are gone")
