"""Checkpoints of running and ended sessions: take, list, compare, roll back to, restore from."""

import hashlib
import json
import signal
from pathlib import Path

import pytest

from tests.harness.program import AgentDev, wait_until
from tests.sandbox.sandbox.scripted_agent import checkpoint, obedient_agent, reported, shown
from tests.sandbox.waiting import end, waiting_agent


def numbers(agent_dev: AgentDev) -> list[int]:
    return [row["checkpoint"] for row in json.loads(agent_dev("checkpoints", "--json").stdout)["checkpoints"]]


def test_an_ended_session_rolls_back_and_forward_between_its_checkpoints(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo one >README.md; echo new >new; rm sub/*; ln -s /etc link")
    before = agent_dev("diff").stdout
    first = int(agent_dev("checkpoint", "-m", "one").stdout.split()[1])
    agent_dev("resume", "--", "sh", "-c", "echo two >README.md; rm new link; rm -r sub; mkdir sub; touch sub/other")
    after = agent_dev("diff").stdout
    assert after != before

    done = agent_dev("rollback", str(first))
    assert done.returncode == 0, done.stderr
    assert agent_dev("diff").stdout == before
    again = int(done.stdout.split()[-1])
    assert agent_dev("rollback", str(again)).returncode == 0
    assert agent_dev("diff").stdout == after
    assert (agent_dev.repo / "README.md").read_text() == "# Shop\n"


def test_a_time_past_the_year_2262_is_kept(agent_dev: AgentDev) -> None:
    agent_dev("--no-merge", "--", "sh", "-c", "echo one >far; touch -d 2400-01-01T00:00:00.5Z far")
    [far] = Path(agent_dev.state, "sessions").glob("*/roots/0/upper/far")
    before = far.stat().st_mtime_ns
    number = checkpoint(agent_dev)
    far.write_text("two\n")
    assert agent_dev("rollback", number).returncode == 0
    assert (far.read_text(), far.stat().st_mtime_ns) == ("one\n", before)


def test_one_version_of_a_file_is_restored_alone(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo one >new; echo one >other")
    first = int(checkpoint(agent_dev))
    agent_dev("resume", "--", "sh", "-c", "echo two >new; echo two >other")
    assert agent_dev("checkpoints", "--of", "new", "--restore", str(first)).returncode == 0
    shown = agent_dev("resume", "--", "cat", "new", "other").stdout
    assert shown == "one\ntwo\n"


def test_a_checkpoint_of_a_running_session_contains_its_state(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "echo one >new") as process:
        done = agent_dev("checkpoint", "-m", "in flight")
        assert done.returncode == 0, done.stderr
        end(process)
    agent_dev("resume", "--", "sh", "-c", "echo two >new")
    assert agent_dev("rollback", done.stdout.split()[1]).returncode == 0
    assert agent_dev("resume", "--", "cat", "new").stdout == "one\n"


def test_a_path_outside_the_root_and_a_non_number_are_refused(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    assert agent_dev("rollback", "1", "/etc/passwd").returncode == 2
    assert agent_dev("rollback", "latest").returncode == 2
    assert agent_dev("rollback", "99").returncode == 2


@pytest.mark.parametrize("words", [("rollback", "1", "mistyped"), ("checkpoints", "--of", "mistyped", "--restore", "1")])
def test_an_unknown_path_is_refused_without_taking_a_checkpoint(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    agent_dev("--", "touch", "new")
    agent_dev("checkpoint")
    before = numbers(agent_dev)
    done = agent_dev(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "mistyped: found neither in a checkpoint nor in the session or the repository" in done.stderr
    assert numbers(agent_dev) == before


@pytest.mark.parametrize("path", ["README.md", "new", "gone"])
def test_a_path_in_only_repository_session_or_checkpoint_is_accepted(agent_dev: AgentDev, path: str) -> None:
    agent_dev("--", "touch", "gone")
    number = checkpoint(agent_dev)
    agent_dev("resume", "--", "sh", "-c", "rm gone; touch new")
    assert agent_dev("rollback", number, path).returncode == 0


@pytest.mark.parametrize("path", ["new", "sub/../new", "{repo}/new"])
def test_paths_given_from_elsewhere_are_relative_to_the_named_session(agent_dev: AgentDev, tmp_path: Path, path: str) -> None:
    agent_dev("--", "touch", "new", "other")
    session = agent_dev.sessions()[0]["session"]
    number = checkpoint(agent_dev)
    agent_dev("resume", "--", "rm", "new", "other")
    named = path.format(repo=agent_dev.repo)
    assert agent_dev("checkpoints", session, "--of", named, cwd=tmp_path).stdout.split()[3] == "file,"
    assert agent_dev("rollback", number, named, "--session", session, cwd=tmp_path).returncode == 0
    assert agent_dev.changes() == {"new": "added"}
    assert agent_dev("rollback", number, str(tmp_path), "--session", session, cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("file", ["root-0.table", "about.json"])
def test_a_damaged_checkpoint_is_reported_and_does_not_affect_others(agent_dev: AgentDev, file: str) -> None:
    agent_dev("--", "sh", "-c", "echo one >new")
    first = checkpoint(agent_dev)
    agent_dev("resume", "--", "sh", "-c", "rm new; touch other")
    last = checkpoint(agent_dev)
    [folder] = (agent_dev.state / "sessions").glob(f"*/checkpoints/{last}")
    (folder / file).write_bytes(b"")
    for words in (("checkpoints",), ("checkpoints", "--of", "new"), ("log", "--changes"), ("deleted",)):
        done = agent_dev(*words)
        assert (done.returncode, done.stderr) == (0, f"agent-dev: checkpoint {last} is damaged and was skipped\n"), words
        assert first in done.stdout
    assert agent_dev("deleted", "--restore", "new").returncode == 0
    assert agent_dev.changes() == {"new": "added", "other": "added"}
    assert agent_dev("rollback", last).returncode == 1
    assert agent_dev("rollback", first).returncode == 0
    assert agent_dev.changes() == {"new": "added"}


def test_a_corrupted_content_is_neither_restored_nor_shown(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo one >new")
    number = checkpoint(agent_dev)
    agent_dev("resume", "--", "sh", "-c", "echo two >new")
    name = hashlib.sha256(b"one\n").hexdigest()
    [content] = (agent_dev.state / "sessions").glob(f"*/checkpoints/objects/{name}")
    content.write_bytes(b"bad\n")
    for words in (("rollback", number), ("diff", f"{number}..")):
        done = agent_dev(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"checkpoint {number} is damaged: new: checksum mismatch" in done.stderr
    assert "+two" in agent_dev("diff").stdout


def test_each_checkpoint_command_prints_one_json_document(agent_dev: AgentDev) -> None:
    agent_dev("--", "sh", "-c", "echo one >new")
    session = agent_dev.sessions()[0]["session"]
    taken = json.loads(agent_dev("checkpoint", "-m", "why", "--json").stdout)
    number = taken["checkpoint"]
    assert (taken["session"], taken["message"], taken["problems"]) == (session, "why", [])
    agent_dev("resume", "--", "rm", "new")

    back = json.loads(agent_dev("rollback", str(number), "--json").stdout)
    assert (back["to"], back["paths"], back["problems"]) == (number, ["new"], [])
    again = json.loads(agent_dev("checkpoints", "--of", "new", "--restore", str(back["before"]), "--json").stdout)
    assert (again["session"], again["to"], again["paths"]) == (session, back["before"], ["new"])
    imported = json.loads(agent_dev("deleted", "--restore", "new", "--json").stdout)
    assert (imported["to"], imported["paths"]) == (None, ["new"])
    thinned = json.loads(agent_dev("checkpoints", "--thin", "--dry-run", "--json").stdout)
    assert (thinned["dry_run"], thinned["removed"]) == (True, [])


@pytest.mark.slow
def test_a_rollback_reports_its_effect_on_the_git_directory_in_one_line(agent_dev: AgentDev, tmp_path: Path) -> None:
    agent_dev.git("worktree", "add", "-q", "-b", "side", tmp_path / "linked")
    for place in (agent_dev.repo, tmp_path / "linked"):
        agent_dev("--", "sh", "-c", "echo one >new", cwd=place)
        number = checkpoint(agent_dev, cwd=place)
        agent_dev("resume", "--", "sh", "-c", "rm new; echo x >git-0; git add -A; git commit -qm x", cwd=place)
        agent_dev("checkpoint", cwd=place)
        assert "objects/" not in agent_dev("log", "--changes", cwd=place).stdout
        lines = agent_dev("rollback", number, cwd=place).stdout.splitlines()
        assert lines[:2] == ["  git-0", "  new"]
        assert lines[2].endswith(" in the agent's git directory")


def test_the_versions_of_a_file_mark_where_the_repository_has_none(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "other")
    agent_dev("checkpoint")
    agent_dev("resume", "--", "touch", "new")
    assert "as in the repository (does not exist now)" in agent_dev("checkpoints", "--of", "new").stdout.splitlines()[0]
    assert agent_dev("checkpoints", "--of", "README.md").stdout.splitlines()[0].endswith("as in the repository")


def test_a_killed_session_can_be_rolled_back(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev, "echo one >new") as process:
        first = checkpoint(agent_dev)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    done = agent_dev("rollback", first)
    assert done.returncode == 0, done.stderr
    assert agent_dev.changes() == {"new": "added"}


# Running sessions

MESS = (
    "rm -r sub; echo x >sub; echo two >README.md; rm new link; mkdir -p new/deep; ln empty twin2; chmod 600 run; "
    "rm -r opaque; mkdir opaque; echo o >opaque/o; rm gone; echo back >gone; rm fifo"
)
MAKE = (
    "echo one >README.md; echo new >new; ln -s /etc link; : >empty; ln empty twin; echo run >run; chmod 755 run; mkfifo fifo; "
    "touch -d @1000000000 new; mkdir -p made/deep; echo d >made/deep/d"
)


@pytest.mark.parametrize(("first", "then"), [(MAKE, MESS), ("true", MAKE), (f"{MAKE}; {MESS}", "rm -rf *"), ("rm -rf *", MAKE)])
def test_a_running_agent_sees_the_tree_of_a_checkpoint_after_a_rollback(agent_dev: AgentDev, first: str, then: str) -> None:
    (agent_dev.repo / "opaque").mkdir()
    for name in ("opaque/lower", "gone"):
        (agent_dev.repo / name).write_text(name)
    with obedient_agent(agent_dev) as process:
        reported(process, first)
        was = shown(process)
        number = checkpoint(agent_dev)
        reported(process, then)
        after = shown(process)
        done = agent_dev("rollback", number)
        assert done.returncode == 0, done.stdout + done.stderr
        assert shown(process) == was
        assert agent_dev("rollback", done.stdout.split()[-1]).returncode == 0
        assert shown(process) == after
    assert sorted(path.name for path in agent_dev.repo.iterdir()) == [".git", "README.md", "gone", "opaque", "sub"]


def test_one_file_of_a_running_session_is_restored_alone(agent_dev: AgentDev) -> None:
    with obedient_agent(agent_dev) as process:
        reported(process, "echo one >new; echo one >README.md")
        number = checkpoint(agent_dev)
        reported(process, "rm new; echo two >README.md")
        assert agent_dev("rollback", number, "new").returncode == 0
        seen = shown(process)
        assert "./new" in seen
        assert "two" in seen["./README.md"]


def test_a_rollback_does_not_follow_a_symlink_that_the_agent_planted(agent_dev: AgentDev, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    with obedient_agent(agent_dev) as process:
        reported(process, "mkdir made; echo one >made/file")
        number = checkpoint(agent_dev)
        reported(process, f"rm -r made; ln -s {victim} made; ln -s {victim} .agent-dev-rollback")
        assert agent_dev("rollback", number).returncode == 0
        assert "./made/file" in shown(process)
    assert (victim / "file").read_text() == "mine"
    assert sorted(path.name for path in victim.iterdir()) == ["file"]


# Automatic checkpoints


def causes(agent_dev: AgentDev) -> list[str]:
    done = agent_dev("checkpoints", "--json")
    return [row["cause"] for row in json.loads(done.stdout)["checkpoints"]] if done.returncode == 0 else []


def test_checkpoints_are_taken_at_the_start_and_at_the_end(agent_dev: AgentDev) -> None:
    with waiting_agent(agent_dev) as process:
        wait_until(lambda: causes(agent_dev) == ["start"], "a checkpoint at the start", patience=60)
        end(process)
    agent_dev("discard")
    with obedient_agent(agent_dev) as agent:
        wait_until(lambda: causes(agent_dev) == ["start"], "a checkpoint at the start", patience=60)
        reported(agent, "echo one >new")
    assert causes(agent_dev) == ["start", "end"]
    assert agent_dev("rollback", "1").returncode == 0
    assert agent_dev.changes() == {}


def test_no_checkpoint_is_taken_when_disabled(agent_dev: AgentDev) -> None:
    config = agent_dev.home.parent / "config/agent-dev/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("checkpoint_minutes: 0\n")
    agent_dev("--", "sh", "-c", "sleep 0.2; touch new")
    assert causes(agent_dev) == []


def test_a_transaction_takes_no_checkpoint(agent_dev: AgentDev) -> None:
    agent_dev("tx", "--", "sh", "-c", "touch new; sleep 0.2; exit 1")
    assert causes(agent_dev) == []


# Differences between checkpoints


def test_diff_compares_two_checkpoints_or_one_with_the_present(agent_dev: AgentDev) -> None:
    with obedient_agent(agent_dev) as process:
        reported(process, "echo one >new; echo changed >README.md")
        first = checkpoint(agent_dev)
        reported(process, "echo two >>new; rm README.md; ln -s new link")
        second = checkpoint(agent_dev)
        reported(process, "rm new link; echo changed >README.md")
    done = agent_dev("diff", f"{first}..{second}")
    assert done.returncode == 0, done.stderr
    between = done.stdout
    assert "+two\n" in between
    assert "deleted file mode 100644\n" in between
    assert "\n--- a/README.md\n" in between
    assert "new file mode 120000\n" in between
    assert agent_dev("diff", f"{second}..{second}").stdout == ""
    assert agent_dev("diff", f"{first}..{second}", "new").stdout.count("diff --git") == 1
    rows = agent_dev("diff", "--stat", f"{first}..").stdout.split("\n")
    assert [row.split()[:3] for row in rows if "new" in row] == [["-", "deleted", "new"]]
    assert agent_dev("diff", "98..99").returncode == 2


# The log


def happened(agent_dev: AgentDev, *session: str) -> list[str]:
    done = agent_dev("log", *session, "--json")
    return [row["event"] for row in json.loads(done.stdout)["events"]] if done.returncode == 0 else []


def test_the_log_has_every_event_of_a_session(agent_dev: AgentDev) -> None:
    with obedient_agent(agent_dev) as process:
        # Wait for the log line too: the process that takes the checkpoint has the lowest priority and logs it afterwards.
        wait_until(lambda: happened(agent_dev) == ["start", "checkpoint"], "a checkpoint at the start", patience=60)
        reported(process, "echo one >new")
        agent_dev("checkpoint")
        reported(process, "rm new; echo x >README.md")
    agent_dev("rollback", "2")
    agent_dev("merge", "--all")
    [session] = [row["session"] for row in agent_dev.sessions(everywhere=True)]
    done = agent_dev("log", session, "--json")
    rows = json.loads(done.stdout)
    assert rows["problem"] is None
    assert happened(agent_dev, session) == [
        "start",
        "checkpoint",
        "checkpoint",
        "end",
        "checkpoint",
        "checkpoint",
        "rollback",
        "merge",
    ]
    changed = json.loads(agent_dev("log", session, "--changes", "--json").stdout)["changes"]
    assert [row["paths"] for row in changed][1:] == [["new"], ["README.md", "new"], []]
    assert agent_dev("log", session).returncode == 0


def test_a_truncated_log_is_reported(agent_dev: AgentDev) -> None:
    agent_dev("--", "touch", "new")
    [place] = agent_dev.state.glob("sessions/*/events.jsonl")
    place.write_text("".join(place.read_text().splitlines(keepends=True)[:-1]))
    done = agent_dev("log")
    assert done.returncode == 1
    assert "was tampered with" in done.stderr
