"""Merged sessions are compacted, and removed once no undo is possible; waiting, running ones and those with commits are not."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent_dev.fs import checksummed_json
from tests.harness.program import AgentDev, tree, wait_until
from tests.harness.scale import repeat

SMALL = 20  # maximum number of entries of a compacted session, and of its merge: of 300 sessions, 290 are compacted


def config(agent_dev: AgentDev, text: str) -> None:
    path = agent_dev.home.parent / "config/agent-dev/config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def merged(agent_dev: AgentDev, name: str, script: str = "") -> Path:
    """Run and merge a session; return its directory."""
    before = set((agent_dev.state / "sessions").glob("*"))
    done = agent_dev("--no-merge", "--name", name, "--", "sh", "-c", script or f"echo {name} >{name}; sleep 0.1")
    assert done.returncode == 0, done.stderr
    assert agent_dev("merge", name, "--all", "--include-risky").returncode == 0
    (folder,) = set((agent_dev.state / "sessions").glob("*")) - before
    return folder


def count(folder: Path) -> int:
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def resolved(agent_dev: AgentDev) -> None:
    wait_until(lambda: not os.listdir(agent_dev.state / "gone"), "what was taken out is gone")


def is_packed(folder: Path) -> bool:
    return (folder / "packed").exists()


def cleaned(agent_dev: AgentDev, *words: str) -> list[tuple[str, str]]:
    done = agent_dev("clean", "--json", *words)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["sessions"]
    assert all(row["bytes"] > 0 for row in rows)
    return [(row["session"], row["action"]) for row in rows]


def test_only_the_newest_merged_sessions_stay_uncompacted(agent_dev: AgentDev) -> None:
    config(agent_dev, "keep_merged_sessions: 2\n")
    folders = [merged(agent_dev, f"s{number}") for number in range(5)]
    resolved(agent_dev)
    assert [is_packed(folder) for folder in folders] == [True, True, True, False, False]
    assert all(count(folder) <= SMALL for folder in folders[:3])
    assert all(count(folder) <= SMALL for folder in (agent_dev.state / "merges").iterdir())
    assert cleaned(agent_dev) == []
    assert cleaned(agent_dev, "--all", "--dry-run") == [(folder.name, "packed") for folder in folders[3:]]
    assert not any(map(is_packed, folders[3:]))
    assert cleaned(agent_dev, "--all") == [(folder.name, "packed") for folder in folders[3:]]
    assert cleaned(agent_dev, "--all") == []


def test_few_sessions_with_many_files_stay_uncompacted(agent_dev: AgentDev) -> None:
    for number in range(1200):
        (agent_dev.repo / ".git/objects" / f"{number:02x}"[-2:]).mkdir(exist_ok=True)
        (agent_dev.repo / ".git/objects" / f"{number:02x}"[-2:] / f"{number:038x}").touch()  # a loose object, linked by each
    folders = [merged(agent_dev, f"s{number}") for number in range(4)]
    assert not any(map(is_packed, folders))
    assert cleaned(agent_dev) == [(folder.name, "packed") for folder in folders[:3]]


def test_nothing_is_compacted_below_the_number_to_keep(agent_dev: AgentDev) -> None:
    config(agent_dev, "keep_merged_sessions: 4\n")
    folders = [merged(agent_dev, f"s{number}") for number in range(3)]
    assert not any(map(is_packed, folders))
    assert cleaned(agent_dev) == []


def stored(folder: Path) -> set[str]:
    """Return the file contents that the lower snapshot of a session contains."""
    return {path.read_text() for path in (folder / "base/content").iterdir()}


def test_a_compacted_session_is_undone_redone_and_merged_again(agent_dev: AgentDev) -> None:
    for name in ("edited", "other"):
        (agent_dev.repo / name).write_text(f"{name}\n")  # in no commit: the lower snapshot contains their bytes
    before = tree(agent_dev.repo)
    folder = merged(agent_dev, "one", "echo more >>edited; echo new >new; rm README.md; mkdir d; echo x >d/x; sleep 0.1")
    after = tree(agent_dev.repo)
    assert stored(folder) >= {"edited\n", "other\n"}
    assert cleaned(agent_dev, "--all") == [(folder.name, "packed")]
    assert "edited\n" in stored(folder)
    assert "other\n" not in stored(folder), "the base kept what the merge did not touch"
    assert agent_dev("undo").returncode == 0
    assert tree(agent_dev.repo).keys() == before.keys()
    assert "+more" in agent_dev("diff", "one").stdout
    assert (agent_dev.repo / "README.md").read_text() == "# Shop\n"
    assert agent_dev.changes("one") == {"README.md": "deleted", "edited": "edited", "d/x": "added", "new": "added"}
    assert agent_dev("commits", "one").stdout == "no commits\n"
    assert cleaned(agent_dev, "--all") == []  # a waiting session is not compacted
    assert agent_dev("redo").returncode == 0
    assert tree(agent_dev.repo).keys() == after.keys()
    assert agent_dev("undo").returncode == 0
    assert agent_dev("merge", "one", "--all", "--include-risky").returncode == 0
    assert (agent_dev.repo / "d/x").read_text() == "x\n"


def test_a_compacted_session_is_resumed_with_its_own_git_dir(agent_dev: AgentDev) -> None:
    folder = merged(agent_dev, "one")
    assert cleaned(agent_dev, "--all") == [(folder.name, "packed")]
    assert agent_dev("undo").returncode == 0
    git = tree(agent_dev.repo / ".git")
    script = "git add one && git -c user.name=A -c user.email=a@b.invalid commit -qm inside && git status --short"
    done = agent_dev("resume", "one", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, "")
    assert tree(agent_dev.repo / ".git") == git
    assert agent_dev.changes("one") == {"one": "added"}
    assert "inside" in agent_dev("commits", "one").stdout
    assert not is_packed(folder)


COMMIT = "git -c user.name=A -c user.email=a@b.invalid commit -qm"


def is_archived(folder: Path) -> bool:
    return (folder / "archive").exists()


def imported(agent_dev: AgentDev, name: str) -> Path:
    """Run a session with a commit, and import that; return the session's directory."""
    before = set((agent_dev.state / "sessions").glob("*"))
    script = f"echo {name} >{name}; git add {name}; {COMMIT} {name}; git tag tag-{name}; sleep 0.1"
    agent_dev.do("--no-merge", "--name", name, "--", "sh", "-ec", script)
    agent_dev.do("merge", name, "--commits", "--include-risky")
    (folder,) = set((agent_dev.state / "sessions").glob("*")) - before
    return folder


def test_a_session_with_commits_that_were_not_imported_is_not_reduced(agent_dev: AgentDev) -> None:
    folder = merged(agent_dev, "one", "echo x >new; git -c user.name=A -c user.email=a@b.invalid commit -q --allow-empty -m x")
    files = tree(folder)
    assert cleaned(agent_dev, "--all") == []
    assert tree(folder) == files


def test_a_merged_session_with_a_branch_is_archived_in_one_file(agent_dev: AgentDev) -> None:
    folder = merged(agent_dev, "one", "echo x >new; git branch b; sleep 0.1")
    lost = ("checkpoints", "judged", "join")
    files = {path: entry for path, entry in tree(folder).items() if not path.startswith((".", *lost))}
    assert cleaned(agent_dev, "--all", "--dry-run") == [(folder.name, "thinned")]
    assert not is_archived(folder)
    assert cleaned(agent_dev, "--all") == [(folder.name, "thinned")]
    assert count(folder) <= SMALL / 2
    assert cleaned(agent_dev, "--all") == []
    assert "branch b: new" in agent_dev("commits", "one").stdout
    assert {path: entry for path, entry in tree(folder).items() if path != "."} == files
    assert os.getxattr(folder / "roots/0/upper/.git", "user.overlay.opaque") == b"y"
    assert cleaned(agent_dev, "--all") == [(folder.name, "thinned")]
    assert agent_dev("undo").returncode == 0
    assert agent_dev.changes("one") == {"new": "added"}


def test_commits_of_an_archived_session_are_undone_and_imported_again(agent_dev: AgentDev, tmp_path: Path) -> None:
    base = agent_dev.git("rev-parse", "HEAD")
    folder = imported(agent_dev, "one")
    head = agent_dev.git("rev-parse", "HEAD")
    looks = [("commits", "one"), ("diff", "one"), ("log", "one"), ("status", "one")]
    before = [agent_dev(*words).stdout for words in looks]
    for direction, expected in (("undo", base), ("redo", head), ("undo", base)):
        cleaned(agent_dev, "--all")
        assert is_archived(folder) is (direction == "undo")  # a session that waits is left alone
        if direction == "undo":
            assert [agent_dev(*words).stdout for words in looks[:2]] == before[:2]
            cleaned(agent_dev, "--all")
        agent_dev.do(direction)
        assert not is_archived(folder)
        assert agent_dev.git("rev-parse", "HEAD") == expected
    assert "one" in agent_dev.do("commits", "one")
    assert "+one" in agent_dev.do("diff", "one")
    agent_dev.do("bundle", "one", tmp_path / "bundle")
    agent_dev.do("merge", "one", "--commits", "--include-risky")
    assert agent_dev.git("rev-parse", "HEAD") == head


def test_an_archived_session_is_resumed_after_the_user_repacked(agent_dev: AgentDev) -> None:
    folder = imported(agent_dev, "one")
    assert cleaned(agent_dev, "--all") == [(folder.name, "thinned")]
    agent_dev.git("gc", "-q")
    agent_dev.do("undo")
    script = f"git fsck --strict --no-dangling && git log -1 --format=%s && {COMMIT} second --allow-empty"
    done = agent_dev("resume", "one", "--", "sh", "-ec", script)
    assert (done.returncode, done.stdout) == (0, "one\n"), done.stderr
    assert list((folder / "objects/0/pack").glob("*.pack")), "its objects are not protected from a prune of the user's"
    assert "second" in agent_dev.do("commits", "one")
    agent_dev.do("merge", "one", "--commits", "--include-risky")
    assert agent_dev.git("log", "-2", "--format=%s").split() == ["second", "one"]


def test_old_sessions_with_commits_are_archived_after_each_merge(agent_dev: AgentDev) -> None:
    config(agent_dev, "keep_merged_sessions: 1\n")
    folders = [imported(agent_dev, f"s{number}") for number in range(3)]
    resolved(agent_dev)
    assert [is_archived(folder) for folder in folders] == [True, True, False]
    assert all(count(folder) <= SMALL / 2 for folder in folders[:2])


def test_cleaning_during_other_commands_loses_nothing(agent_dev: AgentDev) -> None:
    config(agent_dev, "keep_merged_sessions: 0\nkeep_caches_days: 0\n")
    loop = 'while "$@" >/dev/null; do :; done; echo failed'
    with agent_dev.start("clean", "--all", before=("sh", "-c", loop, "sh")) as cleaning:
        for number in range(max(2, repeat(10))):
            name = f"n{number}"
            agent_dev.do("--no-merge", "--name", name, "--", "sh", "-c", f"echo {name} >{name}")
            agent_dev.do("merge", name, "--all", "--include-risky")
            agent_dev.do("undo")
            assert agent_dev.changes(name) == {name: "added"}
            agent_dev.do("redo")
            assert (agent_dev.repo / name).read_text() == f"{name}\n"
        assert cleaning.poll() is None, cleaning.communicate()


def test_a_waiting_session_is_not_compacted(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--name", "one", "--", "sh", "-c", "echo x >x; echo y >y")
    assert agent_dev("merge", "one", "--take", "x").returncode == 0
    (folder,) = (agent_dev.state / "sessions").iterdir()
    files = tree(folder)
    assert cleaned(agent_dev, "--all") == []
    assert tree(folder) == files
    assert agent_dev.changes("one") == {"y": "added"}


def test_a_session_is_removed_when_its_merge_can_no_longer_be_undone(agent_dev: AgentDev) -> None:
    old, young = merged(agent_dev, "old"), merged(agent_dev, "young")
    assert cleaned(agent_dev, "--all", "--dry-run") == [(old.name, "packed"), (young.name, "packed")]
    for folder in (old, young):
        for merge in (agent_dev.state / "merges").glob(f"{folder.name}.*"):
            merge.rename(agent_dev.home / merge.name)  # as if the merges had expired
    record = checksummed_json.loads((old / "session.json").read_bytes())
    (old / "session.json").write_bytes(checksummed_json.dumps({**record, "ended": time.time_ns() - 2 * 86_400 * 10**9}))
    assert cleaned(agent_dev) == [(old.name, "removed")]
    resolved(agent_dev)
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize("cut", range(3))
def test_the_next_command_finishes_an_interrupted_compaction(agent_dev: AgentDev, cut: int) -> None:
    """Kill after the mark, after the move of the git directory, or after the record: none of it counts as the agent's change."""
    folder = merged(agent_dev, "one")
    (folder / "packing").touch()
    record = checksummed_json.loads((folder / "session.json").read_bytes())
    if cut >= 1:
        (folder / "roots/0/upper/.git").rename(agent_dev.home / "moved")
    if cut == 2:
        bare = {"git": [], "copies": [], "bound": [], "stores": [], "large": [], "packed": True, "packed_copies": [0]}
        (folder / "session.json").write_bytes(checksummed_json.dumps({**record, **bare}))
    assert agent_dev("undo").returncode == 0
    assert is_packed(folder)
    assert agent_dev.changes("one") == {"one": "added"}


def test_an_interrupted_rebuild_of_a_git_dir_leaves_nothing(agent_dev: AgentDev) -> None:
    folder = merged(agent_dev, "one")
    assert cleaned(agent_dev, "--all") == [(folder.name, "packed")]
    assert agent_dev("undo").returncode == 0
    (folder / "packing").touch()
    (folder / "roots/0/upper/.git").mkdir()
    (folder / "roots/0/upper/.git/HEAD").write_text("ref: refs/heads/main\n")
    assert agent_dev.changes("one") == {"one": "added"}
    assert not (folder / "roots/0/upper/.git").exists()
