"""`tx --best` with the real program: attempts of one command, their scores, and the differences between them."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.harness.program import AgentDev, processes, processes_inside, tree, wait_until

TURN = "n=1; until mkdir ~/turn$n 2>/dev/null; do n=$((n+1)); done"  # the agent home is shared by the attempts


def best(agent_dev: AgentDev, script: str, *words: str, code: int = 0) -> dict[str, Any]:
    """Run attempts of a shell script one after the other; `$n` is the number of the attempt."""
    done = agent_dev("tx", "--json", "--best", "3", "--jobs", "1", *words, "--", "sh", "-c", f"{TURN}; {script}", timeout=120)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["exit"] == code
    return document


def test_the_best_attempt_is_proposed_and_all_are_kept_as_sessions(agent_dev: AgentDev) -> None:
    before = tree(agent_dev.repo)
    script = "echo said $n; echo $((n % 3 * 5)) >score; seq $n >lines; chmod +x README.md"
    document = best(agent_dev, script, "--score", "echo tests:; cat score; echo ms 7", "--name", "fix", "--validate", "true")

    attempts = document["attempts"]
    assert (document["state"], document["best"]) == ("proposed", 2)
    assert document["reason"] == "fix-2 is the best: score 10, the highest; next is fix-1 with 5"
    assert [one["score"] for one in attempts] == [5, 10, 0]
    assert [one["name"] for one in attempts] == ["fix-1", "fix-2", "fix-3"]
    assert [(one["files"], one["insertions"], one["risks"]) for one in attempts] == [(3, 2, 1), (3, 3, 1), (3, 4, 1)]
    assert [len(one["steps"]) for one in attempts] == [3, 3, 3]
    assert tree(agent_dev.repo) == before
    assert {one["session"] for one in agent_dev.sessions()} == {one["session"] for one in attempts}
    check_kept(agent_dev, document)
    agent_dev.do("merge", "fix-2", "--take", "lines")
    assert (agent_dev.repo / "lines").read_text() == "1\n2\n"


def check_kept(agent_dev: AgentDev, document: dict[str, Any]) -> None:
    """The scores stay with the sessions, are compared again by any of them, and end when the session is resumed."""
    again = json.loads(agent_dev.do("tx", "--json", "--compare", "fix-3"))
    assert again == document
    assert "score 10, attempt 2 of 3" in agent_dev.do("sessions")
    assert "score 0, attempt 3 of 3 (agent-dev tx --compare fix-3)" in agent_dev.do("status", "fix-3")
    assert agent_dev.status("fix-1")["attempt"]["score"] == 5
    agent_dev.do("fork", "fix-1", "--name", "other")
    assert agent_dev.status("other")["attempt"] is None
    agent_dev.do("--no-merge", "resume", "fix-1", "--", "true")
    assert agent_dev.status("fix-1")["attempt"] is None
    left = json.loads(agent_dev.do("tx", "--json", "--compare", "fix-2"))
    assert ([one["attempt"] for one in left["attempts"]], left["best"]) == ([2, 3], 2)
    done = agent_dev("tx", "--compare", "fix-1")
    assert (done.returncode, "not an attempt" in done.stderr) == (125, True)


def test_an_attempt_that_fails_changes_nothing_or_has_no_score_never_wins(agent_dev: AgentDev) -> None:
    script = "case $n in 1) echo 9 >score; exit 3;; 2) ;; 3) echo none >score;; esac"
    document = best(agent_dev, script, "--score", "cat score", code=1)

    assert (document["state"], document["best"]) == ("failed", None)
    assert [one["cause"] for one in document["attempts"]] == ["command", None, "score"]
    assert [one["score"] for one in document["attempts"]] == [None, None, None]
    assert document["attempts"][2]["reason"] == "the score command wrote no line that is only a number: cat score"
    assert [bool(one["session"]) for one in document["attempts"]] == [True, False, True]


def test_lowest_and_merge_apply_the_attempt_with_the_lowest_score(agent_dev: AgentDev) -> None:
    document = best(agent_dev, "echo $((10 - n)) >score", "--score", "cat score", "--lowest", "--merge")

    assert (document["state"], document["best"]) == ("merged", 3)
    assert [one["state"] for one in document["attempts"]] == ["passed", "passed", "merged"]
    assert (agent_dev.repo / "score").read_text() == "7\n"
    assert len(agent_dev.sessions()) == 2


def test_an_interrupt_stops_what_runs_and_compares_what_has_ended(agent_dev: AgentDev) -> None:
    script = f"{TURN}; echo $n >score; [ $n = 1 ] || exec sleep 1000.041"
    words = ("tx", "--json", "--best", "2", "--jobs", "2", "--score", "cat score", "--", "sh", "-c", script)
    with agent_dev.start(*words) as process:
        assert process.stderr is not None
        while "score 1" not in process.stderr.readline():
            assert process.poll() is None
        wait_until(lambda: processes_inside("sleep\0001000.041"), "the other attempt runs")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)

    document = json.loads(output)
    assert (process.returncode, document["state"]) == (0, "proposed"), errors
    assert sorted(str(one["cause"]) for one in document["attempts"]) == ["None", "signal"]
    assert not processes("sleep\0001000.041")


def test_the_table_is_on_stdout_and_hostile_output_is_no_score(agent_dev: AgentDev) -> None:
    words = ("--best", "2", "--score", r"printf '5\n\033[2J9\n'", "--", "sh", "-c", r"touch $(printf 'a\033[2Jb')")
    done = agent_dev("tx", *words)
    assert done.returncode == 0, done.stderr
    rows = [row.split()[:3] for row in done.stdout.splitlines() if "passed" in row]
    assert [row[0] for row in rows] == ["*", rows[1][0]]
    assert [rows[0][2], rows[1][1]] == ["5", "5"]
    assert "with a change of the same size; the first of them" in done.stderr


def test_after_the_merge_of_the_best_the_others_can_be_discarded(agent_dev: AgentDev) -> None:
    words = ("--best", "3", "--jobs", "1", "--score", "echo 1", "--name", "fix", "--merge", "--", "sh", "-c", "echo x >new")
    done = agent_dev("tx", *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("agent-dev: 2 other attempts are kept; to discard them: agent-dev discard fix-2 fix-3\n")

    assert agent_dev("discard", "fix-2", "no-such").returncode != 0
    assert {one["name"] for one in agent_dev.sessions()} == {"fix-2", "fix-3"}
    agent_dev.do("discard", "fix-2", "fix-3", "fix-3")
    assert agent_dev.sessions() == []


def test_the_patch_between_two_sessions_turns_one_result_into_the_other(agent_dev: AgentDev, tmp_path: Path) -> None:
    (agent_dev.repo / ".gitignore").write_text("*.o\n")
    common = "echo same >same; "
    first = common + "echo one >>README.md; echo a >only-one; chmod +x sub/app.py; ln -s one link; mkdir d; echo x >d/x"
    second = common + "echo two >>README.md; rm -r sub; printf 'a\\0b\\377' >binary; ln -s two link; echo d >d; echo >a.o"
    for name, script in (("one", first), ("two", second)):
        agent_dev.do("--no-merge", "--name", name, "--", "sh", "-ec", script)
    trees = {}
    for name in ("one", "two"):
        trees[name] = tmp_path / name
        subprocess.run(["cp", "-r", agent_dev.repo, trees[name]], check=True)
        apply(trees[name], agent_dev.do("diff", name))
    assert tree(trees["one"]) != tree(trees["two"])

    patch = agent_dev.do("diff", "two", "--against", "one")
    assert "same" not in patch
    assert patch.rpartition("diff --git a/")[2].startswith("a.o b/")  # ignored files come last
    apply(trees["one"], patch)
    assert contents(trees["one"]) == contents(trees["two"])
    assert agent_dev.do("diff", "two", "--against", "one", "README.md").count("diff --git") == 1
    assert "README.md" in agent_dev.do("diff", "two", "--against", "one", "--stat")


def apply(folder: Path, patch: str) -> None:
    data = patch.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply", "--whitespace=nowarn"], cwd=folder, input=data, check=True)


def contents(folder: Path) -> dict[str, str]:
    return {path: entry for path, entry in tree(folder).items() if not path.startswith(".git") and path != "."}


def test_wrong_options_of_diff_against_are_refused_in_one_line(agent_dev: AgentDev) -> None:
    agent_dev.do("--no-merge", "--name", "one", "--", "touch", "x")
    for words in (("one", "--against", "one"), ("one", "--against", "no-such"), ("one", "--against", "one", "--hunks")):
        done = agent_dev("diff", *words)
        assert (done.returncode != 0, len(done.stderr.splitlines())) == (True, 2), done.stderr
