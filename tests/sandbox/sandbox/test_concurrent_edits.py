"""The user works while an agent runs: both commit, the agent's view is refreshed, and no edit is lost."""

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, tree, wait_until
from tests.sandbox.waiting import WAIT

SOON = 20.0  # seconds until the view inside is refreshed; 1 if the machine is idle and no process uses the name
PAUSE = 0.2  # seconds between two reads: a name that is in use during a refresh is only refreshed later

COMMITS = """
echo ready; read line
for n in $(seq 20); do
    echo $n >inside-$n && git add -A && git commit -qm "inside $n" || echo "failed at $n"
done
"""


@contextmanager
def agent(agent_dev: AgentDev, script: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield an agent once its script has printed that it is ready."""
    with agent_dev.start("--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def commit_outside(agent_dev: AgentDev, failures: list[str]) -> None:
    for number in range(20):
        (agent_dev.repo / f"outside-{number}").write_text(f"{number}\n")
        for words in (("add", "-A"), ("commit", "-q", "-m", f"outside {number}")):
            done = subprocess.run(
                ["git", *words], cwd=agent_dev.repo, env=agent_dev.environment(), capture_output=True, text=True, check=False
            )
            if done.returncode:
                failures.append(f"{words[0]} {number}: {done.stderr}")


def both_commit(agent_dev: AgentDev) -> tuple[str, list[str]]:
    """Let the agent and the user each make 20 commits concurrently; return the agent's output and the user's failures."""
    failures: list[str] = []
    with agent(agent_dev, COMMITS) as process:
        user = threading.Thread(target=commit_outside, args=(agent_dev, failures))
        user.start()
        out, printed = process.communicate("\n", timeout=60)
        user.join(60)
    assert process.returncode == 0, printed
    return out, failures


def test_user_and_agent_commit_concurrently_and_both_succeed(agent_dev: AgentDev) -> None:
    assert both_commit(agent_dev) == ("", [])


def test_after_commits_on_both_sides_the_users_history_has_only_the_users(agent_dev: AgentDev) -> None:
    both_commit(agent_dev)
    subjects = agent_dev.git("log", "--format=%s").split("\n")
    assert sorted(subject for subject in subjects if "side" in subject) == sorted(f"outside {n}" for n in range(20))
    assert agent_dev.git("fsck", "--strict") == ""
    assert agent_dev.git("status", "--short") == ""


def test_after_commits_on_both_sides_the_session_has_only_the_agents(agent_dev: AgentDev) -> None:
    both_commit(agent_dev)
    subjects = [commit["subject"] for commit in agent_dev.status()["commits"]]
    assert sorted(subjects) == sorted(f"inside {n}" for n in range(1, 21))


def test_the_users_garbage_collection_does_not_break_the_agent(agent_dev: AgentDev) -> None:
    with agent(agent_dev, f"{WAIT}; git fsck --strict && git log --format=%s && git commit -q --allow-empty -m x") as process:
        agent_dev.git("commit", "-q", "--amend", "-m", "Amended")
        agent_dev.git("reflog", "expire", "--expire=now", "--all")
        agent_dev.git("gc", "-q", "--prune=now")
        out, printed = process.communicate("\n", timeout=30)
    assert (process.returncode, out) == (0, "Count to two\nStart the shop\n"), printed


# The view inside

# Print the file again for each line of input.
FOLLOW = "cat sub/app.py >/dev/null; ls sub >/dev/null; echo ready; while read line; do cat sub/app.py; echo .; done"


def looked_at(process: "subprocess.Popen[str]") -> str:
    """Have the agent read the file again; return its content."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return "".join(iter(process.stdout.readline, ".\n"))


def replace(path: Path, text: str) -> None:
    """Write a file as editors do: a new file, renamed over the old one."""
    path.with_name(".new").write_text(text)
    path.with_name(".new").rename(path)


def commits(agent_dev: AgentDev) -> None:
    replace(agent_dev.repo / "sub/app.py", "print('three')\n")
    agent_dev.git("commit", "-q", "-a", "-m", "Count to three")


def stages(agent_dev: AgentDev) -> None:
    replace(agent_dev.repo / "sub/app.py", "print('three')\n")
    agent_dev.git("add", "-A")


def checks_out(agent_dev: AgentDev) -> None:
    agent_dev.git("stash", "-q", "--include-untracked")
    agent_dev.git("checkout", "-q", "side")


@pytest.mark.parametrize("move", [commits, stages, checks_out])
def test_a_file_replaced_outside_is_soon_visible_inside(agent_dev: AgentDev, move: Callable[[AgentDev], None]) -> None:
    agent_dev.git("checkout", "-q", "-b", "side")
    replace(agent_dev.repo / "sub/app.py", "print('three')\n")
    agent_dev.git("commit", "-q", "-a", "-m", "Three")
    agent_dev.git("checkout", "-q", "-")
    with agent(agent_dev, FOLLOW) as process:
        assert looked_at(process) == "print('two')\n"
        move(agent_dev)
        wait_until(lambda: looked_at(process) == "print('three')\n", "the agent sees the new file", SOON, PAUSE)


def test_a_file_open_inside_when_it_was_replaced_is_visible_too(agent_dev: AgentDev) -> None:
    """The kernel keeps the old file under a name that is in use; a later refresh replaces it."""
    script = "exec 3<sub/app.py; echo ready; read line; exec 3<&-; while :; do cat sub/app.py; echo .; read line; done"
    with agent(agent_dev, script) as process:
        commits(agent_dev)
        time.sleep(1.5)  # the first refresh is over, and had no effect
        wait_until(lambda: looked_at(process) == "print('three')\n", "the agent sees the new file", 2 * SOON, PAUSE)


def test_a_merged_file_is_visible_to_another_running_agent(agent_dev: AgentDev) -> None:
    agent_dev("--name", "one", "--", "sh", "-c", "echo \"print('three')\" >sub/app.py")
    with agent(agent_dev, FOLLOW) as process:
        assert looked_at(process) == "print('two')\n"
        assert agent_dev("merge", "one", "--all").returncode == 0
        wait_until(lambda: looked_at(process) == "print('three')\n", "the agent sees the merged file", SOON, PAUSE)


def test_a_file_restored_by_an_undo_is_visible_to_another_running_agent(agent_dev: AgentDev) -> None:
    agent_dev("--name", "one", "--", "sh", "-c", "echo \"print('three')\" >sub/app.py")
    assert agent_dev("merge", "one", "--all").returncode == 0
    with agent(agent_dev, FOLLOW) as process:
        assert looked_at(process) == "print('three')\n"
        assert agent_dev("undo").returncode == 0
        wait_until(lambda: looked_at(process) == "print('two')\n", "the agent sees what was there before", SOON, PAUSE)


def test_without_git_an_undo_is_visible_as_well(agent_dev: AgentDev, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "sub").mkdir(parents=True)
    (plain / "sub/app.py").write_text("print('two')\n")
    agent_dev("--", "sh", "-c", "echo \"print('three')\" >sub/app.py", cwd=plain)
    assert agent_dev("merge", "--all", cwd=plain).returncode == 0
    with agent_dev.start("--", "sh", "-c", FOLLOW, cwd=plain) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert looked_at(process) == "print('three')\n"
        assert agent_dev("undo", cwd=plain).returncode == 0
        wait_until(lambda: looked_at(process) == "print('two')\n", "the agent sees what was there before", SOON, PAUSE)


def test_a_refreshed_view_keeps_the_agents_own_changes(agent_dev: AgentDev) -> None:
    script = "echo mine >README.md; echo new >new; rm sub/deep/note.txt; cat sub/app.py >/dev/null; echo ready"
    script += "; while read line; do cat README.md new; ls sub/deep; cat sub/app.py; echo .; done"
    with agent(agent_dev, script) as process:
        commits(agent_dev)
        wait_until(lambda: looked_at(process) == "mine\nnew\nprint('three')\n", "the agent sees both", SOON, PAUSE)


def test_a_refreshed_view_is_still_nosuid_and_nodev(agent_dev: AgentDev) -> None:
    script = 'cat sub/app.py >/dev/null; echo ready; while read line; do grep " $PWD " /proc/mounts; cat sub/app.py; echo .; done'
    with agent(agent_dev, script) as process:
        commits(agent_dev)
        wait_until(lambda: "three" in looked_at(process), "the view was refreshed", SOON, PAUSE)
        options = looked_at(process).split()[3].split(",")
    assert {"nosuid", "nodev", "rw"} <= set(options)


def test_a_moved_repository_is_reported(agent_dev: AgentDev) -> None:
    with agent(agent_dev, f"touch new; {FOLLOW}") as process:
        commits(agent_dev)
        wait_until(lambda: "three" in looked_at(process), "the view was refreshed", SOON, PAUSE)
        _, printed = process.communicate(timeout=60)
    assert re.search("the repository changed (once|[2-9] times) during the run", printed)


def test_a_merge_into_another_repository_does_not_count_as_a_move(agent_dev: AgentDev, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    agent_dev("--name", "other", "--", "touch", "new", cwd=other)
    with agent(agent_dev, f"touch new; {FOLLOW}") as process:
        assert agent_dev("merge", "other", "--all", cwd=other).returncode == 0
        time.sleep(2.5)  # two checks of the repository: an event that must not happen cannot be awaited
        _, printed = process.communicate(timeout=60)
    assert (other / "new").exists()
    assert "the repository changed" not in printed


# Concurrent changes of the user are conflicts, and stay


def make_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


MOVES: dict[str, Callable[[Path], object]] = {
    "edited": lambda path: path.write_text("user\n"),
    "replaced": lambda path: replace(path, "user\n"),
    "replaced by equal bytes": lambda path: replace(path, path.read_text()),
    "removed": lambda path: path.unlink(),
    "made a directory": make_directory,
    "made a link": make_link,
}
WORKS = {
    "edits": "echo agent >>README.md",
    "deletes": "rm README.md",
    "retypes": "rm README.md; mkdir README.md; touch README.md/x",
}
FITTING = {("edits", "replaced by equal bytes"), ("deletes", "removed")}
CASES = [
    *(
        (work, move, "while the agent runs")
        for work in WORKS
        for move in MOVES
        if (work == "edits" or move in ("edited", "removed")) and (work, move) not in FITTING
    ),
    *(("edits", move, "after the agent ended") for move in MOVES if ("edits", move) not in FITTING),
]


@pytest.mark.parametrize(("work", "move", "when"), CASES)
def test_a_concurrent_change_of_the_user_is_a_conflict_and_stays(agent_dev: AgentDev, work: str, move: str, when: str) -> None:
    path = agent_dev.repo / "README.md"
    with agent(agent_dev, f"{WORKS[work]}; {WAIT}") as process:
        wait_until(lambda: list((agent_dev.state / "sessions").glob("*/base/manifest")), "its base was taken")
        if when.startswith("while"):
            MOVES[move](path)
        process.communicate("\n", timeout=60)
    if when.startswith("after"):
        MOVES[move](path)
    before = tree(agent_dev.repo)
    done = agent_dev("merge", "--all", "--include-risky")
    assert done.returncode == 1, done.stdout
    assert "README.md" in done.stdout
    assert tree(agent_dev.repo) == before


def test_a_file_touched_but_unchanged_by_the_user_is_merged(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", WORKS["edits"])
    path = agent_dev.repo / "README.md"
    text = path.read_text()
    MOVES["replaced by equal bytes"](path)
    assert agent_dev("merge", "--all").returncode == 0
    assert path.read_text() == text + "agent\n"


def test_edits_of_both_in_one_file_are_merged_and_can_be_undone(agent_dev: AgentDev) -> None:
    path = agent_dev.repo / "README.md"
    path.write_text("".join(f"line {number}\n" for number in range(20)))
    agent_dev("--", "sed", "-i", "s/line 15/the agent's/", "README.md")
    yours = path.read_text().replace("line 3\n", "mine\n")
    path.write_text(yours)
    done = agent_dev("merge", "--all")
    assert (done.returncode, "(merges both)" in done.stdout) == (0, True), done.stdout
    assert path.read_text() == yours.replace("line 15\n", "the agent's\n")
    assert agent_dev("undo").returncode == 0
    assert path.read_text() == yours
    assert agent_dev("merge", "--all").returncode == 0
    assert path.read_text() == yours.replace("line 15\n", "the agent's\n")


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.04])
def test_an_edit_before_the_lower_snapshot_is_a_conflict_and_stays(agent_dev: AgentDev, delay: float) -> None:
    path = agent_dev.repo / "README.md"
    with agent(agent_dev, "echo agent >README.md; echo ready; read line") as process:
        time.sleep(delay)
        path.write_text("user\n")
        process.communicate("\n", timeout=60)
    assert agent_dev("merge", "--all", "--include-risky").returncode == 1
    assert path.read_text() == "user\n"


def test_a_file_added_by_both_is_a_conflict(agent_dev: AgentDev) -> None:
    with agent(agent_dev, f"echo agent >both; {WAIT}") as process:
        (agent_dev.repo / "both").write_text("user\n")
        process.communicate("\n", timeout=60)
    assert agent_dev("merge", "--all").returncode == 1
    assert (agent_dev.repo / "both").read_text() == "user\n"


def test_files_untouched_by_the_user_are_merged_despite_a_conflict(agent_dev: AgentDev) -> None:
    with agent(agent_dev, f"echo agent >README.md; echo agent >sub/app.py; {WAIT}") as process:
        (agent_dev.repo / "README.md").write_text("user\n")
        process.communicate("\n", timeout=60)
    assert agent_dev("merge", "--all").returncode == 1
    assert (agent_dev.repo / "README.md").read_text() == "user\n"
    assert (agent_dev.repo / "sub/app.py").read_text() == "agent\n"
