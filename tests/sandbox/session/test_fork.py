"""`fork`: a copy of an ended session with its files and commits, which lives on its own."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_dev.config.options import RunOptions
from agent_dev.errors import Refused
from agent_dev.merge import session_access
from agent_dev.run.ended import fork
from agent_dev.session import sessions
from tests.harness.program import AgentDev, tree

COMMIT = "git -c user.name=a -c user.email=a@b commit -qm"
WORK = f"""
echo made > made; rm a; rm -rf old; mkdir old; echo new > old/new; ln -s made link; ln made second; mkfifo pipe
echo exact > exact; chmod 4751 exact; mkdir -p deep/shut; echo x > deep/shut/x; chmod 0 deep/shut/x deep/shut
mkdir shared; chmod 2775 shared; chmod 555 sub
git add made; {COMMIT} 'by the agent'; echo more >> made; exec true
"""
# Inside, the session's modes apply, and unreadable directories stay closed.
LISTING = (
    "find . -path ./.git -prune -o -printf '%p %y %m %n %s %T@ %l\\n' 2>/dev/null | sort; git log --format=%H; git status -s"
)


@pytest.fixture
def ended(agent_dev: AgentDev) -> AgentDev:
    """Return the program with a waiting session `one` that has changed files of all kinds and made a commit."""
    (agent_dev.repo / "a").write_text("a\n")
    (agent_dev.repo / "old").mkdir()
    (agent_dev.repo / "old/gone").write_text("gone\n")
    agent_dev.git("add", "-A")
    agent_dev.git("-c", "user.name=me", "-c", "user.email=me@here", "commit", "-qm", "mine")
    agent_dev.ended_session(WORK, "--name", "one")
    return agent_dev


def shown(agent_dev: AgentDev, name: str) -> list[str]:
    """Return the tree of a session, without the times and link counts of directories, and its commits."""
    lines = agent_dev.do("exec", name, "--", "sh", "-c", LISTING).splitlines()
    return [" ".join(line.split()[:3]) if line.split()[1:2] == ["d"] else line for line in lines]


def test_the_copy_has_the_same_files_and_commits(ended: AgentDev) -> None:
    before = tree(ended.state / "sessions")
    done = ended("fork", "one", "--name", "two")
    assert (done.returncode, done.stdout) == (0, "session two is a copy of one\n")
    assert ended.changes("two") == ended.changes("one")
    assert shown(ended, "two") == shown(ended, "one")
    assert {row["name"]: row["state"] for row in ended.sessions()} == {"one": "waiting", "two": "waiting"}
    first = str(ended.sessions()[0]["session"])
    assert {path: entry for path, entry in tree(ended.state / "sessions").items() if path.startswith(first)} == {
        path: entry for path, entry in before.items() if path.startswith(first)
    } | {f"{first}/judged.json": tree(ended.state / "sessions")[f"{first}/judged.json"]}


def test_no_file_is_shared(ended: AgentDev) -> None:
    ended.do("fork", "--name", "two")
    folders = [ended.state / "sessions" / str(row["session"]) / "roots" for row in ended.sessions()]
    first, second = ({path.lstat().st_ino for path in folder.rglob("*") if path.is_file()} for folder in folders)
    assert not first & second


def test_each_is_resumed_and_merged_on_its_own(ended: AgentDev) -> None:
    ended.do("fork", "one", "--name", "two")
    ended.do("resume", "two", "--", "sh", "-ec", f"test ! -e a; echo second > other; git add other; {COMMIT} 'in the copy'")
    assert "other" not in ended.changes("one")
    assert len(ended.do("commits", "one").splitlines()) < len(ended.do("commits", "two").splitlines())
    ended.do("merge", "two", "--commits")
    assert ended.git("log", "--format=%s").splitlines()[:2] == ["in the copy", "by the agent"]
    ended.do("merge", "one", "--take", "old")
    assert (ended.repo / "old/new").read_text() == "new\n"
    assert not (ended.repo / "old/gone").exists()
    ended.do("undo")
    assert (ended.repo / "old/gone").exists()


def test_a_copy_outlives_its_source(ended: AgentDev) -> None:
    ended.do("fork", "one", "--name", "two")
    before = shown(ended, "two")
    ended.do("discard", "one")
    ended.do("clean", "--all")
    assert shown(ended, "two") == before
    assert "by the agent" in ended.do("commits", "two")


def test_a_linked_work_tree_and_a_second_root_are_copied(ended: AgentDev, tmp_path: Path) -> None:
    linked, other = tmp_path / "linked", tmp_path / "other"
    ended.git("worktree", "add", "-q", linked, "-b", "branch")
    other.mkdir()
    script = f"echo x >> README.md; {COMMIT} linked -a; echo y > {other}/y"
    done = ended("--no-merge", "--name", "three", "--overlay", other, "--", "sh", "-ec", script, cwd=linked)
    assert done.returncode == 0, done.stderr
    assert ended("fork", "three", "--name", "four", cwd=linked).returncode == 0
    assert ended.changes("four", cwd=linked) == ended.changes("three", cwd=linked)
    done = ended(
        "resume", "four", "--", "sh", "-ec", f"git log -1 --format=%s; cat {other}/y; {COMMIT} z --allow-empty", cwd=linked
    )
    assert done.stdout.startswith("linked\ny\n"), done.stderr
    ended.do("merge", "four", "--commits")
    assert ended.git("log", "-2", "--format=%s", "branch").splitlines() == ["z", "linked"]


def test_objects_on_another_file_system_are_linked_again(ended: AgentDev) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        env = {"XDG_STATE_HOME": folder}
        assert ended("--no-merge", "--", "sh", "-ec", f"echo x > x; git add x; {COMMIT} far", env=env).returncode == 0
        done = ended("fork", "--name", "far", env=env)
        assert done.returncode == 0, done.stderr
        done = ended("exec", "far", "--", "git", "log", "--format=%s", "-2", env=env)
        assert done.stdout == "far\nmine\n", done.stderr
        linked = list((ended.repo / ".git").glob("agent-dev/*"))
        assert len(linked) == (2 if os.stat(folder).st_dev != ended.repo.stat().st_dev else 0)
        ended("discard", "far", env=env)
        ended("clean", "--all", env=env)
        assert len(list((ended.repo / ".git").glob("agent-dev/*"))) == len(linked) // 2


def test_a_used_name_is_refused(ended: AgentDev) -> None:
    for name in ("one", "a/b"):
        done = ended("fork", "one", "--name", name)
        assert done.returncode == 2, done.stderr
    hint = "use another name, or first agent-dev merge one or agent-dev discard one"
    assert ended("fork", "one", "--name", "one").stderr.splitlines()[-1] == f"agent-dev: hint: {hint}"
    assert len(ended.session_directories()) == 1


def test_the_hint_follows_the_message_in_one_stream(ended: AgentDev) -> None:
    words = [sys.executable, "-m", "agent_dev", "fork", "one", "--name", "two"]
    text = "session two is a copy of one\nagent-dev: hint: agent-dev resume two\n"
    run = partial(subprocess.run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    assert run(words, cwd=ended.repo, env=ended.environment()).stdout == text


def test_a_running_session_is_refused(agent_dev: AgentDev) -> None:
    with agent_dev.start("--no-merge", "--name", "one", "--", "sh", "-c", "echo ready; read line") as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        done = agent_dev("fork", "one")
        assert done.returncode == 1
        assert "is running" in done.stderr
        assert "agent-dev stop one" in done.stderr


def test_a_merged_session_is_refused(agent_dev: AgentDev) -> None:
    agent_dev.ended_session("echo x > x", "--name", "one")
    agent_dev.do("merge", "one", "--all")
    done = agent_dev("fork", "one")
    assert (done.returncode, "is merged: there is nothing to copy" in done.stderr) == (1, True)


def test_without_enough_space_nothing_is_made(ended: AgentDev, monkeypatch: pytest.MonkeyPatch) -> None:
    context = sessions.command_context(RunOptions(directory=str(ended.repo)), dict(ended.env))
    one = session_access.lock_ended(sessions.find_session(context, "one"))
    full = os.statvfs_result((4096, 4096, 1000, 1, 1, 1000, 1, 1, 0, 255))
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _path: full)
        with pytest.raises(Refused, match=r"needs .* KiB, but 4.0 KiB are free"):
            fork.fork_session(context, one, "two")
    assert len(ended.session_directories()) == 1
