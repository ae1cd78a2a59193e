"""The command policy: decisions, questions, the log, checkpoints and rollbacks, and files when a command bypasses the policy."""

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_dev.session import events
from agent_dev.session.store import Session
from tests.harness.program import PROGRAM, PYTHON, AgentDev, supervisor_of, tree, wait_until
from tests.harness.terminal import Terminal
from tests.sandbox.policy.watched import OWN, asking, ends, lines, log, session, sh, written


def test_a_harmful_command_is_not_started_and_the_agent_gets_the_reason(guarded: AgentDev) -> None:
    code, printed = sh(guarded, "touch kept; rm -rf / --no-preserve-root; test -e kept && exit 7")
    assert code == 7
    assert printed.count("agent-dev: rm was not started: this would remove the system") == 1
    assert "You are in an agent-dev sandbox." in printed


def test_a_rule_of_the_user_applies_and_its_message_is_shown(guarded: AgentDev) -> None:
    code, printed = sh(guarded, "touch allowed; touch forbidden")
    assert (code, "not that one." in printed) == (126, True)
    assert guarded.changes() == {"allowed": "added"}


def test_every_command_is_logged_in_a_hash_chain_up_to_the_record(guarded: AgentDev) -> None:
    sh(guarded, "cd sub; touch x; touch forbidden; env A=b /bin/true")
    first, rows = log(guarded)[:-4], log(guarded)[-4:]
    assert {row["argv"][0] for row in first} == {"sh"}  # on a busy machine, one PATH search of the shell may take several lines
    assert [row["argv"] for row in rows] == [
        ["touch", "x"],
        ["touch", "forbidden"],
        ["env", "A=b", "/bin/true"],
        ["/bin/true"],
    ]
    assert [row["decision"] for row in rows] == ["allow", "deny", "allow", "allow"]
    assert rows[1]["rule"] == "no-touch"
    assert {row["cwd"] for row in rows} == {str(guarded.repo / "sub")}
    assert len({row["parent"] for row in rows[:3]}) == 1
    record = json.loads((session(guarded) / "session.json").read_text())
    count = len(lines(guarded))
    assert (record["policy"]["set"], record["commands"]["count"], record["commands"]["dropped"]) == ("guard", count, 0)
    held = Session("", str(session(guarded)))
    path = session(guarded) / "commands.jsonl"
    assert events.read_commands(held, record).problem == ""
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join(text[:-1]))
    assert f"of {count} lines" in events.read_commands(held, record).problem
    number = next(number for number, line in enumerate(text) if '["touch", "x"]' in line)
    text[number] = text[number].replace('"x"', '"y"')
    path.write_text("".join(text))
    assert f"changed after line {number}" in events.read_commands(held, record).problem


def test_the_exit_status_of_a_long_command_is_logged(guarded: AgentDev) -> None:
    inner = "read go; exit 7"
    with guarded.start("--no-merge", "--", "sh", "-c", f"touch x; sh -c '{inner}'; exit 5") as process:
        wait_until(lambda: has_begun(guarded, inner), "its row")
        process.communicate("\n", timeout=60)
    begun = {row["pid"]: row for row in log(guarded)}
    found = [row for row in ends(guarded) if row["argv"][0] == "sh"]  # on a busy machine, the end of a `touch` is logged, too
    assert sorted((row["argv"][-1] == inner, row["exit"]) for row in found) == [(False, 5), (True, 7)]  # logged in either order
    for row in found:
        assert 0 <= row["duration"] == (row["time"] - begun[row["pid"]]["time"]) // 1_000_000


def test_the_applied_rules_are_logged_and_a_broken_policy_stops_nothing(guarded: AgentDev) -> None:
    sh(guarded, "touch one")
    before = json.loads((session(guarded) / "session.json").read_text())["policy"]
    own = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev/policy.yaml"
    with guarded.start("--no-merge", "--", "sh", "-c", "touch two; echo ready; read x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        own.write_text("guard: [this is no set of rules\n")
        _, printed = process.communicate("\n", timeout=60)
    assert (process.returncode, "is waiting:" in printed) == (0, True)
    own.write_text(OWN)
    record = json.loads((session(guarded) / "session.json").read_text())
    assert (record["state"], record["policy"]) == ("waiting", before)


def test_a_resumed_session_continues_its_log(guarded: AgentDev) -> None:
    sh(guarded, "touch x")
    before = len(log(guarded))
    assert guarded("--no-merge", "resume", "--", "touch", "y").returncode == 0
    assert {tuple(row["argv"]) for row in log(guarded)[before:]} == {("touch", "y")}


def test_secrets_are_not_logged(guarded: AgentDev) -> None:
    sh(guarded, "touch x; /bin/true --token hunter22; env API_SECRET=hunter22 true; /bin/true https://ada:hunter22@example.org")
    text = (session(guarded) / "commands.jsonl").read_text()
    assert "hunter22" not in text
    assert '"--token", "***"' in text


def test_the_agent_cannot_reach_the_log_or_supervisor(guarded: AgentDev) -> None:
    code, printed = sh(guarded, f"ls {guarded.state} {guarded.state}/sessions; kill -9 1; touch x; true")
    assert (code, "commands.jsonl" in printed) == (0, False)
    assert log(guarded)


def test_without_a_policy_and_directory_renames_there_is_no_filter_or_log(agent_dev: AgentDev) -> None:
    count = "grep Seccomp_filters /proc/self/status; touch x"
    _, watched = sh(agent_dev, count)
    assert (session(agent_dev) / "commands.jsonl").exists()
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text('policy: "off"\ndirectory_renames: false\n')
    _, plain = sh(agent_dev, count)
    assert not (session(agent_dev) / "commands.jsonl").exists()
    filters = [
        int(next(line for line in printed.splitlines() if "Seccomp_filters" in line).split()[1]) for printed in (plain, watched)
    ]
    assert filters[1] == filters[0] + 1


def test_an_unreadable_policy_prevents_the_start(guarded: AgentDev) -> None:
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "policy.yaml"
    path.write_text(OWN.replace("decision: deny", "decision: den"))
    done = guarded("--", "true")
    assert (done.returncode, "did you mean deny?" in done.stderr) == (125, True)
    assert wait_until(lambda: not guarded.session_directories(), "nothing is left")


def test_a_transaction_fails_when_the_policy_denied_a_command(guarded: AgentDev) -> None:
    before = tree(guarded.repo)
    done = guarded("tx", "--json", "--", "sh", "-c", "touch new; touch forbidden; true")
    assert (done.returncode, json.loads(done.stdout)["cause"]) == (1, "policy")
    assert tree(guarded.repo) == before


# Checkpoints and rollbacks


def checkpoints(agent_dev: AgentDev) -> list[dict[str, Any]]:
    found = agent_dev("checkpoints", "--json")
    assert found.returncode == 0, found.stderr
    rows: list[dict[str, Any]] = json.loads(found.stdout)["checkpoints"]
    return rows


def test_a_checkpoint_before_a_tree_is_removed_restores_it(guarded: AgentDev) -> None:
    code, printed = sh(guarded, "echo y >y; mkdir made; echo only-here >made/x; rm -rf made; test ! -e made && exit 7")
    assert code == 7, printed
    row = next(row for row in log(guarded) if row["argv"][0] == "rm")
    assert (row["decision"], row["rule"]) == ("checkpoint", "remove-trees")
    taken = next(one for one in checkpoints(guarded) if one["checkpoint"] == row["checkpoint"])
    assert taken["cause"] in ("rm -rf made", "start")  # that of the start, if nothing has changed since
    assert guarded("rollback", str(row["checkpoint"])).returncode == 0
    assert guarded.changes() == {"made/x": "added", "y": "added"}


def test_a_failed_checkpoint_stops_nothing(guarded: AgentDev) -> None:
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    path.write_text("policy: guard\ncheckpoint_minutes: 0\n")  # a checkpoint at the start would recreate the directory
    with guarded.start("--no-merge", "--", "sh", "-c", "mkdir made; echo ready; read go; rm -rf made; echo x >x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        shutil.rmtree(session(guarded) / "checkpoints", ignore_errors=True)
        (session(guarded) / "checkpoints").write_text("in the way")
        process.communicate("\n", timeout=60)
    assert guarded.changes() == {"x": "added"}
    assert "no checkpoint" in next(row for row in log(guarded) if row["argv"][0] == "rm")["problem"]


def test_a_transacted_command_is_rolled_back_only_if_it_fails(guarded: AgentDev) -> None:
    def transacted(script: str) -> str:
        return f"sh -c '{script}' transacted"

    wait = "for _ in $(seq 1500); do test -e bad || break; sleep 0.02; done"  # the rollback runs while the shell continues
    script = (
        f"echo y >y; {transacted('echo good >good')}; {transacted('echo bad >bad; rm -r sub; exit 3')}; {wait}; cat sub/app.py"
    )
    code, printed = sh(guarded, script)
    assert (code, "print('two')" in printed) == (0, True), printed
    assert guarded.changes() == {"good": "added", "y": "added"}
    found = [(row["exit"], row.get("rolled_back")) for row in ends(guarded) if row["argv"][-1] == "transacted"]
    assert found == [(0, None), (3, True)]


# The process of a transacted command executes another program, or was another program before.
BECOMING = {
    "it becomes another": ("""sh -c 'echo bad >bad; exec sh -c "read go; exit 3"' transacted""", ["read go; exit 3"]),
    "it was another": (
        """sh -c 'exec sh -c "echo bad >bad; read go; exit 3" transacted'""",
        ["echo bad >bad; read go; exit 3"],
    ),
    "it was another that lasted": (
        """sh -c 'read first; exec sh -c "echo bad >bad; read go; exit 3" transacted'""",
        ["read first; exec", "echo bad >bad; read go; exit 3"],
    ),
}


@pytest.mark.parametrize("way", BECOMING)
def test_a_command_that_execs_another_program_is_rolled_back_too(guarded: AgentDev, way: str) -> None:
    command, awaited = BECOMING[way]
    with guarded.start("--no-merge", "--", "sh", "-c", f"{command}; read last; touch over") as process:
        assert process.stdin is not None
        for script in awaited:
            wait_until(partial(has_begun, guarded, script), f"the row of {script}")
            process.stdin.write("\n")
            process.stdin.flush()
        wait_until(lambda: '"rolled_back": true' in written(guarded), "it is rolled back")
        [upper] = guarded.state.glob("sessions/*/roots/0/upper")
        assert not (upper / "bad").exists()
        process.communicate("\n", timeout=60)
    assert guarded.changes() == {"over": "added"}
    [row] = [row for row in ends(guarded) if row["argv"][-1] == "transacted"]
    assert (row["exit"], row["rolled_back"], row["problem"]) == (3, True, "")


def has_begun(agent_dev: AgentDev, script: str) -> bool:
    """Return whether a shell whose script begins with `script` is in the log."""
    return f'"argv": ["sh", "-c", "{script}' in written(agent_dev)


# Questions


def test_the_user_answers_in_another_terminal(guarded: AgentDev) -> None:
    with asking(guarded, "touch asked; echo $?; touch later") as process:
        listed = guarded("approve").stdout
        assert "touch asked" in listed
        row = json.loads(guarded("approve", "--json").stdout)["questions"][0]
        assert row["argv"] == ["touch", "asked"]
        assert isinstance(row["until"], int)
        assert 0 < row["until"] - row["time"] < 10**12  # nanoseconds
        assert guarded("approve", "2").returncode == 2
        done = guarded("approve", "1")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "agent-dev: approved: 1  touch asked\n")
        printed, _ = process.communicate(timeout=60)
    assert printed == "0\n"
    assert guarded.changes() == {"asked": "added", "later": "added"}
    assert [row.get("answer") for row in log(guarded)][-2:] == ["yes", None]


def test_the_user_denies_a_command(guarded: AgentDev) -> None:
    with asking(guarded, "touch asked; touch later") as process:
        done = guarded("approve", "--deny", "1")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "agent-dev: denied: 1  touch asked\n")
        _, printed = process.communicate(timeout=60)
    assert "denied by the user. think again." in printed
    assert guarded.changes() == {"later": "added"}


def test_question_numbers_continue_when_a_session_is_resumed(guarded: AgentDev) -> None:
    with asking(guarded, "touch kept; touch asked; exec sleep 600") as process:
        process.kill()
        process.wait()
    with guarded.start("resume", "--", "sh", "-c", "touch asked; touch later") as process:
        questions = wait_until(lambda: waiting(guarded), "it asks")
        assert [row["number"] for row in questions] == [2]
        assert guarded("approve", "1").returncode == 2
        assert guarded("approve", "2").returncode == 0
        process.communicate(timeout=60)
    assert guarded.changes() == {"kept": "added", "asked": "added", "later": "added"}


def waiting(agent_dev: AgentDev) -> list[dict[str, Any]]:
    done = agent_dev("approve", "--json")
    return list(json.loads(done.stdout)["questions"]) if done.returncode == 0 else []


def test_a_command_without_a_timely_answer_is_denied(guarded: AgentDev) -> None:
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    path.write_text("policy: guard\nask_seconds: 1\n")
    _, printed = sh(guarded, "touch asked; touch later")
    assert "no answer in time" in printed
    assert guarded.changes() == {"later": "added"}
    assert [row.get("answer") for row in log(guarded)][-2:] == ["none", None]


def test_other_commands_run_while_one_waits_for_an_answer(guarded: AgentDev) -> None:
    with asking(guarded, "touch asked & touch other; /bin/true; touch more; wait") as process:
        root = session(guarded) / "roots" / "0" / "upper"
        wait_until((root / "more").exists, "another command ran")
        assert not (root / "asked").exists()
        guarded("approve", "1")
        process.communicate(timeout=60)
    assert (root / "asked").exists()


# Failing closed


def test_a_command_that_exits_before_the_answer_is_not_logged_as_denied(guarded: AgentDev) -> None:
    script = "touch asked & read go; kill -9 $!; wait $!; echo $?; touch later"
    with guarded.start("tx", "--", "sh", "-c", script) as process:
        wait_until(lambda: list(guarded.state.glob("sessions/*/asks/1.json")), "the question is asked")
        assert process.communicate("\n", timeout=60)[0].startswith("137\n")
    assert (process.returncode, (guarded.repo / "later").exists()) == (0, True)


def test_nothing_starts_without_a_supervisor(guarded: AgentDev) -> None:
    script = "echo ready; read go; /bin/true; echo $?; /bin/touch x; echo $?"
    with guarded.start("--no-merge", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(wait_until(lambda: supervisor_of(process.pid), "what watches is there"), signal.SIGKILL)
        printed, _ = process.communicate("\n", timeout=60)
    assert [int(code) for code in printed.split()] == [126, 126] or all(int(code) for code in printed.split())
    assert not list((guarded.state / "sessions").glob("*/roots/0/upper/x"))


@pytest.mark.parametrize("step", ["run", "_handle_call"], ids=["at once", "at the first command"])
def test_a_supervisor_that_dies_before_the_first_command_fails_the_start(guarded: AgentDev, step: str) -> None:
    imports = "from agent_dev.cli import main; from agent_dev.supervisor.exec_service import ExecService"
    code = f"{imports}; ExecService.{step} = lambda *_: 1 / 0; main.main()"
    command = (sys.executable, "-c", code, "--no-merge", "--", "touch", "x")
    done = subprocess.run(command, env=guarded.env, cwd=guarded.repo, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 125
    assert "agent-dev: the command supervisor died" in done.stderr
    assert not (guarded.repo / "x").exists()


# A launcher that continues only after the sandbox's first process, which it has just let start, has exited and been reaped.
LATE = """
import os, select
from agent_dev.cli import main as cli
from agent_dev.supervisor.exec_service import ExecService
ExecService._handle_call = lambda *_: 1 / 0
launcher, write = os.getpid(), os.write
def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
def write_and_wait(fd, data):
    inner = [] if (os.getpid(), data) != (launcher, b"x") else [pid for child in children(launcher) for pid in children(child)]
    poll = select.poll()
    for pid in inner:
        poll.register(os.pidfd_open(pid), 0)
    written = write(fd, data)
    if inner:
        poll.poll(20_000)
    return written
os.write = write_and_wait
cli.main()
"""


def test_a_supervisor_death_at_the_first_command_is_reported_by_a_slow_launcher(guarded: AgentDev) -> None:
    command = (sys.executable, "-c", LATE, "--no-merge", "--", "touch", "x")
    done = subprocess.run(command, env=guarded.env, cwd=guarded.repo, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "agent-dev: the command supervisor died" in done.stderr) == (125, True), done.stderr


def test_a_command_with_unreadable_arguments_is_not_started(guarded: AgentDev) -> None:
    code = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "libc.execve(b'/bin/true', ctypes.c_void_p(8), None)\nprint(ctypes.get_errno())"
    )
    done = guarded("--no-merge", "--", PYTHON, "-I", "-c", code)
    assert int(done.stdout) in (1, 14)  # EPERM, or EFAULT if the kernel checked the pointer first


def test_a_message_without_a_reader_is_not_waited_for(guarded: AgentDev) -> None:
    code = (
        "import os, subprocess\nr, w = os.pipe()\nos.set_blocking(w, False)\n"
        "try:\n while True: os.write(w, bytes(4096))\nexcept BlockingIOError: pass\nos.set_blocking(w, True)\n"
        "try: subprocess.run(['touch', 'forbidden'], stderr=w)\nexcept PermissionError: print('denied')"
    )
    assert guarded("--no-merge", "--", PYTHON, "-I", "-c", code).stdout == "denied\n"


# Bypasses: each removes a directory against the rule on `rm -rf`, and none changes the user's files.


ROUND = {
    "copy": "cp /bin/rm ./x; ./x -rf sub",
    "symlink": "ln -s /bin/rm x; ./x -rf sub",
    "ld.so": "$(ls /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 2>/dev/null | head -1) /bin/rm -rf sub",
    "memfd": f"{PYTHON} -I -c \"import os; f = os.memfd_create('x', 0); os.write(f, open('/bin/rm', 'rb').read());"
    " os.execve(f, ['x', '-rf', 'sub'], {})\"",
    "interpreter": f"{PYTHON} -I -c \"import shutil; shutil.rmtree('sub')\"",
    "builtin": 'cd sub/deep && for f in *; do : >"$f"; done; cd ../..; mv sub /tmp/gone',
}


@pytest.mark.parametrize("way", ROUND)
def test_a_bypass_of_the_command_policy_is_stopped_by_the_sandbox(guarded: AgentDev, way: str) -> None:
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "policy.yaml"
    path.write_text("guard:\n  rules:\n    - {name: no-rm, programs: [rm], decision: deny}\n")
    before = tree(guarded.repo)
    assert sh(guarded, "rm -rf sub")[0] == 126
    code, printed = sh(guarded, f"{ROUND[way]}; test ! -e sub && exit 7")
    assert code == 7, printed  # bypassed: inside, the directory is deleted
    assert tree(guarded.repo) == before  # the real one is unchanged
    assert guarded.changes()["sub/app.py"] == "deleted"  # the deletion is listed before a merge


def test_a_question_rings_the_bell_of_the_users_terminal(guarded: AgentDev) -> None:
    words = ("--no-merge", "--", "sh", "-c", "touch asked")
    with Terminal([PROGRAM, *words], cwd=guarded.repo, env=guarded.terminal_environment()) as terminal:
        terminal.wait_for("waits for the user's approval")
        terminal.wait_raw(b"\a")
        assert guarded("approve", "1").returncode == 0
        assert terminal.wait_exit() == 0
