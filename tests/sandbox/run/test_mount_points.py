"""Mount points in the agent home (D26): obstacles at their paths, and their removal after the last session."""

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
    """Return a directory of the host that no agent may reach."""
    outside = tmp_path / "outside"
    (outside / "shop").mkdir(parents=True)
    (outside / "kept").write_text("kept")
    return outside


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_an_obstacle_at_the_roots_mount_point_is_refused(agent_dev: AgentDev, outside: Path, plant: Plant) -> None:
    agent_dev.agent_home.mkdir()
    plant(agent_dev.agent_home / "src", outside)
    before, home = tree(outside), tree(agent_dev.agent_home)
    done = agent_dev("--", "echo", "ran")
    assert (done.returncode, done.stdout) == (125, "")
    assert str(agent_dev.agent_home / "src") in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(outside) == before
    assert tree(agent_dev.agent_home) == home
    assert agent_dev.session_directories() == []


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_an_obstacle_at_the_roots_own_name_is_refused(agent_dev: AgentDev, outside: Path, plant: Plant) -> None:
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
def test_a_symlink_at_a_tool_directory_is_not_followed(agent_dev: AgentDev, outside: Path, plant: Plant, place: str) -> None:
    command(agent_dev.home / ".local/bin/tool", "tool directory")
    (agent_dev.home / ".cache/pip").mkdir(parents=True)
    (agent_dev.agent_home / place).parent.mkdir(parents=True)
    plant(agent_dev.agent_home / place, outside)
    before, link = tree(outside), (agent_dev.agent_home / place).lstat()
    assert agent_dev("--", "true").returncode == 0  # it belongs to the agent home and is not masked
    assert tree(outside) == before
    assert (agent_dev.agent_home / place).lstat().st_ino == link.st_ino


@pytest.mark.parametrize("name", [".gitconfig", ".netrc", ".asdf/.netrc", ".npmrc"])
def test_a_symlink_at_a_masked_or_passed_through_file_is_not_followed(agent_dev: AgentDev, outside: Path, name: str) -> None:
    (agent_dev.home / ".asdf").mkdir()
    (agent_dev.home / ".asdf/.netrc").write_text("canary")
    (agent_dev.agent_home / name).parent.mkdir(parents=True, exist_ok=True)
    (agent_dev.agent_home / name).symlink_to(f"/oldroot{outside}/kept")
    before = tree(outside)
    agent_dev("--", "true")
    assert tree(outside) == before


def second(agent_dev: AgentDev, name: str = "shelf") -> AgentDev:
    """Return the program in a second repository of the same user."""
    repo = agent_dev.home / "src" / name
    repo.mkdir()
    other = AgentDev(agent_dev.home, repo)
    other.git("init", "-q")
    (repo / "file").write_text("shelf\n")
    other.git("add", "-A")
    other.git("commit", "-q", "-m", "Begin")
    return other


def test_a_symlink_planted_by_a_running_agent_does_not_redirect_the_next_start(agent_dev: AgentDev, outside: Path) -> None:
    other = second(agent_dev)
    before = tree(outside)
    script = f"mv ~/src ~/old && ln -s /oldroot{outside} ~/src; {WAIT}"
    with agent_dev.start("--", "sh", "-c", script) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        done = other("--", "echo", "ran")
        assert tree(outside) == before
        assert (agent_dev.agent_home / "src").is_symlink()
        assert (done.returncode, done.stdout) == (125, "")
        first.communicate("\n", timeout=60)
    assert tree(outside) == before


def test_two_sessions_with_one_home_keep_their_roots(agent_dev: AgentDev) -> None:
    other = second(agent_dev)
    script = f"{WAIT}; ls ~/src/shop"
    with agent_dev.start("--", "sh", "-c", script) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        assert other("--", "ls").stdout == "file\n"
        assert other("--", "ls", agent_dev.repo).stdout == ""
        out, _ = first.communicate("\n", timeout=60)
    assert out == "README.md\nsub\n"


def test_mount_points_are_removed_with_the_last_session_and_not_before(agent_dev: AgentDev) -> None:
    command(agent_dev.home / ".local/bin/tool", "tool directory")
    other = second(agent_dev)
    with agent_dev.start("--", "sh", "-c", f"{WAIT}; tool; cat ~/src/shop/README.md") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        assert other("--", "true").returncode == 0
        wait_until(lambda: len(agent_dev.session_directories()) == 1, "the second session's files are gone")
        assert (agent_dev.agent_home / "src/shop").is_dir()
        out, _ = first.communicate("\n", timeout=60)
    assert out == "tool directory\n# Shop\n"
    wait_until(lambda: os.listdir(agent_dev.agent_home) == [], "the agent home is empty")


def test_a_directory_used_by_an_agent_stays(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo mine >~/src/mine; echo own >~/own")
    wait_until(lambda: agent_dev.session_directories() == [], "the session's files are gone")
    wait_until(lambda: not (agent_dev.agent_home / "src/shop").exists(), "the mount point is gone")
    assert (agent_dev.agent_home / "src/mine").read_text() == "mine\n"
    assert (agent_dev.agent_home / "own").read_text() == "own\n"


def test_an_existing_empty_directory_stays(agent_dev: AgentDev) -> None:
    (agent_dev.agent_home / "src/shop").mkdir(parents=True)
    agent_dev("--", "true")
    wait_until(lambda: agent_dev.session_directories() == [], "the session's files are gone")
    assert (agent_dev.agent_home / "src/shop").is_dir()


def test_the_next_start_removes_mount_points_of_a_killed_session(agent_dev: AgentDev) -> None:
    with agent_dev.start("--", "sh", "-c", WAIT) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        first.kill()
        first.wait(20)
    assert (agent_dev.agent_home / "src/shop").is_dir()
    second(agent_dev)("--", "true")
    wait_until(lambda: not (agent_dev.agent_home / "src").exists(), "the mount points are gone")
