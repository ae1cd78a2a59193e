"""A full disk is reported with its mount point: the repository's or the state directory's, found by agent-dev or by git."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_dev.fs import disk_space
from tests.harness.program import AgentDev, tree


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """Yield a mounted file system of 1 MB."""
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder), check=True)
    yield folder
    subprocess.run(("umount", "--lazy", folder), check=True)


@pytest.mark.only_root
def test_a_merge_names_the_file_system_that_is_full(agent_dev: AgentDev, full: Path) -> None:
    repository = full / "shop"
    repository.mkdir()
    (repository / "file").write_text("1")
    assert agent_dev("--no-merge", "--", "sh", "-c", "head -c 2000000 /dev/zero >new", cwd=repository).returncode == 0
    done = agent_dev("merge", "--all", cwd=repository)
    assert done.returncode == 1
    assert done.stderr.startswith(f"agent-dev: {full}: No space left on device; nothing was changed"), done.stderr
    assert sorted(os.listdir(repository)) == ["file"]


@pytest.mark.only_root
@pytest.mark.parametrize("target", ["new.patch", "new", "empty"])
def test_an_export_to_a_full_disk_leaves_nothing(agent_dev: AgentDev, full: Path, target: str) -> None:
    agent_dev.ended_session("seq 300000 >lines")
    (full / "empty").mkdir()
    done = agent_dev("merge", "--all", "--export", full / target)
    assert done.returncode == 1
    assert done.stderr == f"agent-dev: {full / target}: No space left on device; nothing was exported\n"
    assert [*full.rglob("*")] == [full / "empty"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_the_file_system_with_the_least_free_space_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        (folder / "below").mkdir(parents=True)
    left = {str(first / "below"): 7, str(second / "below"): 0}

    def statvfs(path: str) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 100, 0, left[path], 100, 50, 50, 0, 255))

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(os.path, "ismount", lambda path: path in (str(first), str(second), "/"))
    places = (str(first / "below"), str(second / "below"))
    assert disk_space.failed_path(OSError(number, ""), *places) == str(second)
    left[places[0]], left[places[1]] = 0, 7
    assert disk_space.failed_path(OSError(number, ""), *places) == str(first)
    assert disk_space.failed_path(OSError(errno.EIO, "", b"/x"), *places) == "/x"
    assert disk_space.failed_path(OSError(errno.EIO, ""), *places) == places[0]


# A session with two commits, on a branch that also has new commits outside: an import merges, writes a pack and updates a ref.
COMMITS = "sed -i 2d a; git commit -qam one; head -c 30000 /dev/urandom >b; git add b; git commit -qm two"
ONTO = ("merge", "--commits", "--onto-current")


def with_commits(program: AgentDev) -> None:
    program.git("init", "-q")
    (program.repo / "a").write_text("".join(f"{number}\n" for number in range(60)))
    program.git("add", "a")
    program.git("commit", "-qm", "first")
    done = program("--no-merge", "--", "sh", "-c", COMMITS)
    assert done.returncode == 0, done.stderr
    with (program.repo / "a").open("a") as file:
        file.write("mine\n")
    program.git("commit", "-qam", "mine")


@pytest.mark.only_root
@pytest.mark.parametrize("which", ["state", "repository"])
def test_a_full_disk_during_git_is_reported_and_changes_nothing(home: Path, which: str) -> None:
    repo = home / "src" / "full"
    target = home.parent / "state" if which == "state" else repo
    for folder in (repo, target):
        folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", target), check=True)
    try:
        program = AgentDev(home, repo)
        with_commits(program)
        before, printed = tree(repo), set[str]()
        ballast = target / ".git/ballast" if which == "repository" else target / "ballast"
        for left in (0, 24, 40, 56, 72, 96, 112, 144, 176, 400):
            free = os.statvfs(target)
            ballast.write_bytes(bytes(max(free.f_bavail * free.f_frsize - left * 1024, 0)))
            done = program(*ONTO)
            ballast.unlink()
            if done.returncode == 0:
                break
            assert done.returncode == 1
            assert tree(repo) == before, left
            assert done.stdout == ""
            printed |= set(done.stderr.splitlines())
        assert done.returncode == 0, done.stderr
        message = "No space left on device"
        assert printed <= {f"agent-dev: {target}: {message}; nothing was changed", f"agent-dev: {message}: {target}"}
        assert f"agent-dev: {target}: {message}; nothing was changed" in printed
    finally:
        subprocess.run(("umount", "--lazy", target), check=True)


@pytest.mark.parametrize(("verb", "call"), [("merge-tree", "mkdir"), ("update-ref", "openat")])
def test_an_exceeded_quota_during_git_is_reported_and_is_no_conflict(home: Path, tmp_path: Path, verb: str, call: str) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    repo = home / "src" / "quota"
    repo.mkdir(parents=True)
    program = AgentDev(home, repo)
    with_commits(program)
    before = without_objects(repo)
    branch = repo / ".git" / program.git("symbolic-ref", "HEAD").strip()
    wrapper = tmp_path / "quota" / "git"
    wrapper.parent.mkdir()
    at = f"-P {branch}.lock" if call == "openat" else ""
    wrapper.write_text(
        f"""#!/bin/sh
case " $* " in
*" {verb} "*) exec strace -f -qq -o /dev/null {at} -e trace={call} -e inject={call}:error=EDQUOT /usr/bin/git "$@" ;;
esac
exec /usr/bin/git "$@"
"""
    )
    wrapper.chmod(0o755)
    done = program(*ONTO, env={"PATH": f"{wrapper.parent}:{program.env['PATH']}"})
    assert done.returncode == 1
    assert done.stderr.endswith("Disk quota exceeded; nothing was changed\n"), done.stderr
    assert done.stdout == ""
    assert without_objects(repo) == before
    assert program(*ONTO).returncode == 0


def without_objects(repo: Path) -> dict[str, str]:
    """Return the entries of a repository except git objects: git itself removes unreachable ones."""
    return {path: what for path, what in tree(repo).items() if not path.startswith(".git/objects")}
