"""Transactions with the real program: all changes are applied or none; the exit code and a message report the outcome."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.program import AgentDev, processes, processes_inside, tree, wait_until

NUMBERS = "".join(f"line {number}\n" for number in range(40))


def outcome(agent_dev: AgentDev, *words: str, **keywords: Any) -> tuple[int, dict[str, Any]]:
    """Run a transaction; return its exit code and its JSON."""
    done = agent_dev("tx", "--json", *words, **keywords)
    value: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, value


def waiting(agent_dev: AgentDev) -> list[str]:
    return [row["session"] for row in agent_dev.sessions()]


def numbered(agent_dev: AgentDev) -> None:
    """Commit a file of many lines: its base version is the committed one, even if it is edited while a command starts."""
    (agent_dev.repo / "lines").write_text(NUMBERS)
    agent_dev.git("add", "lines")
    agent_dev.git("commit", "-q", "-m", "Number the lines")


def test_a_successful_transaction_is_merged_without_a_prompt(agent_dev: AgentDev) -> None:
    code, reported = outcome(agent_dev, "--", "sh", "-c", "echo new >new; echo more >>README.md")
    assert (code, reported["state"], reported["applied"]) == (0, "merged", ["README.md", "new"])
    assert (agent_dev.repo / "new").read_text() == "new\n"
    assert waiting(agent_dev) == []
    assert agent_dev("undo").returncode == 0
    assert not (agent_dev.repo / "new").exists()


@pytest.mark.parametrize("path", ["/etc", "..", "../other"])
def test_take_with_a_path_outside_the_repository_starts_nothing(agent_dev: AgentDev, path: str) -> None:
    code, reported = outcome(agent_dev, "--take", path, "--", "touch", "new")
    assert (code, reported["state"]) == (125, "not started")
    assert f"--take {path} is outside {agent_dev.repo}" in reported["reason"]
    assert agent_dev.session_directories() == []


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "--timeout", "0", "true"),
        ("--no-such", "--json", "--", "true"),
        ("--json",),
        ("--json", "--many", "no-such"),
        ("--json", "--take", "/etc", "true"),
        ("--json", "--", "no-such"),
    ],
)
def test_a_failed_start_prints_one_json_document_too(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    done = agent_dev("tx", *words)
    reported = json.loads(done.stdout)
    assert (done.returncode, reported.pop("reason") in done.stderr) == (125, True)
    assert reported == {"version": 1, "state": "not started", "exit": 125}


@pytest.mark.parametrize("words", [("--first",), ("--review",), ("--lowest",), ("--jobs", "2"), ("--best", "2")], ids=str)
def test_the_hint_of_an_option_for_several_shows_its_help(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    done = agent_dev("tx", *words, "--", "true")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (125, "agent-dev: hint: agent-dev tx --many --help")
    assert words[0] in agent_dev.do("tx", "--many", "--help")


def test_json_as_argument_of_the_command_or_an_option_value_is_ignored(agent_dev: AgentDev) -> None:
    for words in (("--timeout", "0", "true", "--json"), ("--validate", "--json"), ("--timeout", "0", "--", "true", "--json")):
        assert agent_dev("tx", *words).stdout == ""


def test_a_session_that_failed_validation_is_listed_by_its_command(agent_dev: AgentDev) -> None:
    outcome(agent_dev, "--validate", "true", "--validate", "false", "--", "touch", "new")
    assert [row["command"] for row in agent_dev.sessions()] == [["touch", "new"]]


def test_a_transaction_without_changes_leaves_nothing(agent_dev: AgentDev) -> None:
    code, reported = outcome(agent_dev, "--", "true")
    assert (code, reported["merge"], reported["session"]) == (0, None, None)
    assert wait_until(lambda: not agent_dev.session_directories(), "the session is gone")


@pytest.mark.parametrize(
    ("words", "script", "code", "cause"),
    [
        ((), "exit 3", 3, "command"),
        ((), "exit 124", 124, "command"),
        ((), "kill -9 $$", 137, "signal"),
        (("--timeout", "4"), "sleep 60", 124, "timeout"),  # enough time to start on a busy machine
        (("--validate", "grep -q one README.md"), "true", 1, "validation"),
        (("--validate", "true", "--validate", "sleep 60", "--timeout", "4s"), "true", 124, "timeout"),
        ((), "chmod +x README.md", 1, "risk"),
        ((), "mkfifo sub/app.py.fifo && rm sub/app.py && mkfifo sub/app.py", 1, "risk"),
    ],
)
def test_a_failed_transaction_changes_nothing_and_is_kept(
    agent_dev: AgentDev, words: tuple[str, ...], script: str, code: int, cause: str
) -> None:
    before = tree(agent_dev.repo)
    ended, reported = outcome(agent_dev, *words, "--", "sh", "-c", f"echo kept >kept; {script}")
    assert (ended, reported["exit"], reported["state"], reported["cause"]) == (code, code, "failed", cause)
    assert reported["reason"]
    assert tree(agent_dev.repo) == before
    assert waiting(agent_dev) == [reported["session"]]
    assert agent_dev.changes()["kept"] == "added"


def test_a_failure_is_reported_in_one_line(agent_dev: AgentDev) -> None:
    done = agent_dev("tx", "--", "sh", "-c", "echo x >x; exit 5")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.splitlines()[0] == "agent-dev: nothing was merged: exited with status 5"
    assert len(done.stderr.splitlines()) == 2


def verdicts(agent_dev: AgentDev, *session: str) -> list[dict[str, Any]]:
    done = agent_dev("log", *session, "--json")
    assert done.returncode == 0, done.stderr
    return [row for row in json.loads(done.stdout)["events"] if row["event"] == "transaction"]


def test_the_log_records_a_verdict(agent_dev: AgentDev) -> None:
    _, reported = outcome(agent_dev, "--validate", "false", "--", "sh", "-c", "echo x >x")
    (row,) = verdicts(agent_dev)
    assert (row["verdict"], row["cause"], row["reason"]) == ("failed", "validation", reported["reason"])
    assert [(step["command"][-1], step["exit"]) for step in row["steps"]] == [("echo x >x", 0), ("false", 1)]
    assert row["milliseconds"] == sum(step["milliseconds"] for step in row["steps"])
    _, reported = outcome(agent_dev, "--take", "sub", "--", "sh", "-c", "echo a >sub/a; echo b >b")
    (row,) = verdicts(agent_dev, reported["session"])
    assert (row["verdict"], row["cause"], row["merge"]) == ("merged", None, reported["merge"])
    _, reported = outcome(agent_dev, "--", "sh", "-c", "chmod +x README.md")
    (row,) = verdicts(agent_dev, reported["session"])
    assert (row["verdict"], row["cause"]) == ("failed", "risk")


def test_the_log_of_each_candidate_records_its_verdict(agent_dev: AgentDev) -> None:
    _, jobs = listed(agent_dev, ["echo a >a; exit 3", "echo b >b; chmod +x README.md"])
    assert [verdicts(agent_dev, job["session"])[0]["cause"] for job in jobs] == ["command", "risk"]


def test_a_validation_sees_the_changes_and_its_output_is_applied(agent_dev: AgentDev) -> None:
    code, reported = outcome(agent_dev, "--validate", "cat made >seen", "--", "sh", "-c", "echo one >made")
    assert (code, reported["applied"], (agent_dev.repo / "seen").read_text()) == (0, ["made", "seen"], "one\n")
    assert [step["exit"] for step in reported["steps"]] == [0, 0]


def test_a_validation_runs_even_without_changes(agent_dev: AgentDev) -> None:
    assert outcome(agent_dev, "--validate", "false", "--", "true")[0] == 1


def test_validations_after_a_failure_are_not_run(agent_dev: AgentDev) -> None:
    _, reported = outcome(agent_dev, "--validate", "touch validated", "--", "sh", "-c", "echo x >x; exit 1")
    assert len(reported["steps"]) == 1
    assert agent_dev.changes() == {"x": "added"}


@pytest.mark.parametrize(
    ("words", "script", "printed"),
    [
        (("--limit", "time=4s"), "echo x >x; sleep 300", "stopped: reached the limit time=4s"),
        (("--limit", "time=4s", "--timeout", "1h"), "echo x >x; sleep 300", "stopped: reached the limit time=4s"),
        (("--limit", "file-size=64K"), "head -c 65537 /dev/zero >x", "stopped: reached the limit file-size=64K"),
    ],
)
def test_a_reached_limit_is_reported_as_the_cause(agent_dev: AgentDev, words: tuple[str, ...], script: str, printed: str) -> None:
    code, reported = outcome(agent_dev, *words, "--", "sh", "-c", script)
    assert "cause" in reported, reported
    assert (code, reported["cause"], reported["reason"]) == (1, "limit", printed)
    assert agent_dev.changes() == {"x": "added"}


def test_a_leftover_process_cannot_change_validated_files(agent_dev: AgentDev) -> None:
    marker = "1237.5"
    script = f"echo good >x; (trap '' TERM HUP; setsid sh -c 'sleep {marker}; echo bad >x') >/dev/null 2>&1 &"
    code, _ = outcome(agent_dev, "--validate", "grep -q good x && ! pgrep -x sleep", "--", "sh", "-c", script)
    assert (code, processes_inside(marker)) == (0, [])


def test_a_risk_is_allowed_by_its_rule_by_the_configuration_or_by_all(agent_dev: AgentDev) -> None:
    config = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    for number, words in enumerate((("--allow", "executable"), ("--include-risky",))):
        assert outcome(agent_dev, *words, "--", "install", "-m", "755", "/dev/null", f"run{number}")[0] == 0
    assert outcome(agent_dev, "--allow", "deletion", "--", "install", "-m", "755", "/dev/null", "run3")[1]["cause"] == "risk"
    config.parent.mkdir(parents=True)
    config.write_text("tx_allow: [executable]\n")
    assert outcome(agent_dev, "--", "install", "-m", "755", "/dev/null", "run4")[0] == 0
    config.write_text("tx_allow: [executible]\n")
    code, reported = outcome(agent_dev, "--", "install", "-m", "755", "/dev/null", "run5")
    problem = f"{config}:1: tx_allow: executible: no such rule in risks.yaml (did you mean executable?)"
    assert (code, reported["reason"]) == (125, problem)


def test_a_conflict_with_a_concurrent_change_merges_nothing(agent_dev: AgentDev) -> None:
    (agent_dev.repo / "lines").write_text(NUMBERS)
    words = ("tx", "--json", "--", "sh", "-c", "sed -i 's/line 3$/agent/' lines; echo n >new; echo ready; read go")
    with agent_dev.start(*words) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        (agent_dev.repo / "lines").write_text(NUMBERS.replace("line 3\n", "mine\n"))
        printed, _ = process.communicate("\n", timeout=60)
    reported = json.loads(printed)
    assert (process.returncode, reported["cause"], reported["applied"]) == (1, "conflict", [])
    assert (agent_dev.repo / "lines").read_text() == NUMBERS.replace("line 3\n", "mine\n")
    assert not (agent_dev.repo / "new").exists()


def test_a_concurrent_change_elsewhere_in_the_file_is_merged(agent_dev: AgentDev) -> None:
    numbered(agent_dev)
    with agent_dev.start("tx", "--", "sh", "-c", "sed -i 's/line 3$/agent/' lines; echo ready; read go") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until(lambda: list(agent_dev.state.glob("sessions/*/base/manifest")), "its base was taken")
        (agent_dev.repo / "lines").write_text(NUMBERS.replace("line 30\n", "mine\n"))
        process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert (agent_dev.repo / "lines").read_text() == NUMBERS.replace("line 3\n", "agent\n").replace("line 30\n", "mine\n")


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o555])
def test_files_without_write_permission_are_merged(agent_dev: AgentDev, mode: int) -> None:
    script = f"echo new >new; mkdir moved; mv sub/inner moved; chmod {mode:o} README.md new moved/inner"
    (agent_dev.repo / "sub/inner").write_text("inner\n")
    code, reported = outcome(agent_dev, "--allow", "executable", "--", "sh", "-c", script)
    assert (code, reported["state"]) == (0, "merged")
    for path, text in (("new", "new\n"), ("moved/inner", "inner\n")):
        place = agent_dev.repo / path
        assert place.stat().st_mode & 0o777 == mode
        assert place.read_text() == text
    assert (agent_dev.repo / "README.md").stat().st_mode & 0o777 == mode
    assert not (agent_dev.repo / "sub/inner").exists()
    assert agent_dev("undo").returncode == 0
    assert (agent_dev.repo / "sub/inner").read_text() == "inner\n"
    assert not (agent_dev.repo / "new").exists()


def test_an_unchanged_tree_is_reported(agent_dev: AgentDev) -> None:
    done = agent_dev("tx", "--", "true")
    assert (done.returncode, done.stderr) == (0, "agent-dev: no changes to merge\n")


def test_only_paths_named_by_take_are_applied_and_the_rest_waits(agent_dev: AgentDev) -> None:
    code, reported = outcome(agent_dev, "--take", "sub", "--", "sh", "-c", "echo a >sub/a; echo b >b")
    assert (code, reported["applied"], [one["path"] for one in reported["skipped"]]) == (0, ["sub/a"], ["b"])
    assert waiting(agent_dev) == [reported["session"]]


@pytest.mark.parametrize(
    ("take", "code", "cause", "unchanged"),
    [
        (("subb",), 1, "selection", ["subb"]),  # a mistyped path
        (("subb", "./n"), 1, "selection", ["subb", "./n"]),
        (("README.md",), 0, None, ["README.md"]),  # exists, but the command did not change it
        (("subb", "README.md"), 0, None, ["subb", "README.md"]),
        (("subb", "b"), 0, None, ["subb"]),
        (("b",), 0, None, []),
    ],
)
def test_take_without_matching_changes_is_reported(
    agent_dev: AgentDev, take: tuple[str, ...], code: int, cause: str | None, unchanged: list[str]
) -> None:
    flags = [word for path in take for word in ("--take", path)]
    ended, reported = outcome(agent_dev, *flags, "--", "touch", "b")
    assert (ended, reported["cause"], reported["unchanged"], reported["exit"]) == (code, cause, unchanged, code)
    assert (agent_dev.repo / "b").exists() == ("b" in take)
    (agent_dev.repo / "b").unlink(missing_ok=True)
    printed = agent_dev("tx", *flags, "--", "touch", "b").stderr
    if cause:
        assert f"nothing was merged: --take {', '.join(take)}: no such path" in printed
    else:
        assert [line for line in printed.splitlines() if "--take" in line and "no changes" in line] == [
            f"agent-dev: --take {path}: no changes" for path in unchanged
        ]


@pytest.mark.parametrize(
    ("take", "path", "options"),
    [((), "ignored", "--include-ignored, --take PATH"), (("--take", "README.md"), "new", "--take PATH")],
)
def test_only_options_that_apply_skipped_changes_are_named(
    agent_dev: AgentDev, take: tuple[str, ...], path: str, options: str
) -> None:
    (agent_dev.repo / ".gitignore").write_text("ignored\n")
    done = agent_dev("tx", *take, "--", "touch", path)
    assert f"nothing was merged, 1 skipped ({options})\n" in done.stderr


def test_ignored_files_are_excluded_unless_requested(agent_dev: AgentDev) -> None:
    (agent_dev.repo / ".gitignore").write_text("built/\n")
    script = "mkdir built; echo x >built/x; chmod +x built/x; echo y >y"
    code, reported = outcome(agent_dev, "--", "sh", "-c", script)
    assert (code, reported["applied"], reported["session"]) == (0, ["y"], None)
    assert waiting(agent_dev) == []
    assert outcome(agent_dev, "--include-ignored", "--", "sh", "-c", "mkdir built; echo x >built/x")[1]["applied"] == ["built/x"]


def test_a_file_moved_to_an_ignored_path_stays_where_it_was(agent_dev: AgentDev) -> None:
    numbered(agent_dev)
    (agent_dev.repo / ".git/info/exclude").write_text("/built\n")
    words = ("--", "sh", "-c", "mkdir built; mv lines built; echo more >>built/lines; echo new >new")
    code, reported = outcome(agent_dev, *words)
    assert (code, reported["applied"]) == (0, ["new"])
    reason = "it was moved to built/lines, which git ignores; --take merges both"
    assert reported["skipped"][1:] == [{"path": "lines", "reason": reason}]
    assert (agent_dev.repo / "lines").read_text() == NUMBERS
    assert waiting(agent_dev) == [reported["session"]]
    assert outcome(agent_dev, "--take", "lines", *words)[1]["applied"] == ["built/lines", "lines"]


def test_many_deletions_require_confirmation(agent_dev: AgentDev) -> None:
    for number in range(20):
        (agent_dev.repo / f"f{number}").write_text("x")
    words = ("--allow", "deletion", "--", "sh", "-c", "rm f*")
    assert outcome(agent_dev, *words)[1]["cause"] == "deletions"
    assert (agent_dev.repo / "f0").exists()
    assert outcome(agent_dev, "--yes-delete-many", *words)[0] == 0
    assert not (agent_dev.repo / "f0").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--", "no-such-command"),
        (),
        ("--no-such-option", "--", "true"),
        ("--timeout", "soon", "--", "true"),
        ("--allow", "no-such-rule", "--", "true"),
        ("--first", "--", "true"),
        ("--many", "missing"),
        ("--many", "/dev/null"),
        ("--jobs", "0", "--many", "/dev/null"),
    ],
)
def test_a_command_that_did_not_start_exits_with_125(agent_dev: AgentDev, words: tuple[str, ...]) -> None:
    done = agent_dev("tx", *words)
    assert done.returncode == 125
    assert len(done.stderr.splitlines()) == 2
    assert agent_dev.session_directories() == []


def test_run_options_are_accepted_on_either_side(agent_dev: AgentDev) -> None:
    script = "test $A$B = onetwo"
    assert agent_dev("--env", "A=one", "tx", "--env", "B=two", "--", "sh", "-c", script).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_transaction_ended_by_a_signal_merges_nothing(agent_dev: AgentDev, number: signal.Signals) -> None:
    script = "echo x >x; echo ready; read line"  # no sleep: dash can lose an interrupt while it starts a program
    with agent_dev.start("tx", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        process.wait(timeout=60)
    assert process.returncode == 128 + number
    assert not (agent_dev.repo / "x").exists()
    assert agent_dev.changes() == {"x": "added"}


# Several transactions


def listed(agent_dev: AgentDev, lines: list[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = agent_dev("tx", "--json", "--many", "-", *words, input="\n".join(lines))
    return done.returncode, json.loads(done.stdout)["jobs"]


def test_several_transactions_are_merged_in_turn_with_a_three_way_merge(agent_dev: AgentDev) -> None:
    numbered(agent_dev)
    lines = [f"sed -i 's/line {number}$/agent {number}/' lines" for number in (5, 15, 25)]
    code, jobs = listed(agent_dev, ["# comments are left out", "", *lines, "exit 7"], "--jobs", "2")
    assert (code, [job["exit"] for job in jobs]) == (1, [0, 0, 0, 7]), jobs
    wanted = NUMBERS
    for number in (5, 15, 25):
        wanted = wanted.replace(f"line {number}\n", f"agent {number}\n")
    assert (agent_dev.repo / "lines").read_text() == wanted


def test_a_transaction_that_conflicts_with_an_earlier_one_fails_whole(agent_dev: AgentDev) -> None:
    first = "until [ -e ~/second ]; do sleep 0.05; done; echo one >x"  # not merged before the second has started
    code, jobs = listed(agent_dev, [first, "touch ~/second; echo two >x; echo y >y", "echo z >z"], "--jobs", "3")
    assert (code, [job["cause"] for job in jobs]) == (1, [None, "conflict", None])
    assert ((agent_dev.repo / "x").read_text(), os.path.lexists(agent_dev.repo / "y")) == ("one\n", False)
    assert (agent_dev.repo / "z").exists()


def test_the_first_success_ends_the_other_candidates(agent_dev: AgentDev) -> None:
    lines = ["sleep 600; echo a >x", "echo b >x", "exit 1", "sleep 600; echo late >x"]
    code, jobs = listed(agent_dev, lines, "--first", "--jobs", "3")
    assert (code, (agent_dev.repo / "x").read_text()) == (0, "b\n")
    assert [job["state"] for job in jobs] == ["failed", "merged", "failed", "failed"]
    assert jobs[0]["cause"] == "not needed"
    assert waiting(agent_dev) == []


# The first candidate is ended before it has done anything: it continues only when the SIGTERM is pending.
SLOW = """
import os, signal, sys, time
from agent_dev.cli import main as cli
from agent_dev.transaction import job_batch
sys.argv[:2] = []
fork = os.fork
def forked():
    os.fork, pid = fork, fork()
    deadline = time.monotonic() + 20
    while not pid and signal.SIGTERM not in signal.sigpending() and time.monotonic() < deadline:
        time.sleep(0.01)
    return pid
os.fork = forked
cli.main()
"""


# Without the limit of the batch, an agent that ignores SIGTERM would run on.
PATIENT = """
import sys
from agent_dev.cli import main as cli
from agent_dev.sandbox import sandbox_monitor
sandbox_monitor._TERM_TIMEOUT = 10**9
sys.argv[:2] = []
cli.main()
"""


def test_the_first_success_kills_a_candidate_that_ignores_signals(agent_dev: AgentDev) -> None:
    stubborn = "trap '' TERM HUP INT; touch ~/ready; while :; do sleep 0.2; done"
    lines = f"{stubborn}\nuntil [ -e ~/ready ]; do sleep 0.05; done; echo b >x\n"
    words = ("tx", "--json", "--many", "-", "--first", "--jobs", "2")
    done = agent_dev(*words, input=lines, before=(sys.executable, "-c", PATIENT, "agent-dev"))
    assert [job["cause"] for job in json.loads(done.stdout)["jobs"]] == ["not needed", None]
    assert waiting(agent_dev) == []


def test_the_first_success_ends_a_candidate_that_just_started(agent_dev: AgentDev) -> None:
    words = ("tx", "--json", "--many", "-", "--first", "--jobs", "2")
    slow = (sys.executable, "-c", SLOW, "agent-dev")
    done = agent_dev(*words, input="touch ~/ran; echo a >x\necho b >x\n", before=slow)
    jobs = json.loads(done.stdout)["jobs"]
    assert [job["state"] for job in jobs] == ["failed", "merged"]
    assert not (agent_dev.agent_home / "ran").exists()


def test_the_output_of_each_candidate_is_printed(agent_dev: AgentDev) -> None:
    done = agent_dev("tx", "--many", "-", "--jobs", "1", input="echo first\necho second\n")
    assert (done.returncode, done.stdout) == (0, "first\nsecond\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGKILL])
def test_candidates_ended_by_a_signal_merge_nothing_more(agent_dev: AgentDev, tmp_path: Path, number: signal.Signals) -> None:
    marker = f"58.{number:02}"  # it ends even if the signal does not end it
    (tmp_path / "list").write_text(f"echo a >a; sleep {marker}\necho b >b\n")
    with agent_dev.start("tx", "--many", tmp_path / "list", "--jobs", "2") as process:
        wait_until(lambda: processes(f"sleep\0{marker}"), "the first runs")
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 1)
    assert not (agent_dev.repo / "b").exists()
    assert wait_until(lambda: not processes(f"sleep\0{marker}"), "all is over")
