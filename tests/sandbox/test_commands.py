"""The command policy at work: what is denied, asked for and written down, and what happens to files where it is got round."""

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
from tests.harness.program import PYTHON, AgentDev, tree, wait_until, watcher
from tests.sandbox.watched import OWN, asking, ends, lines, log, session, sh, written


def test_what_only_harms_is_not_started_and_the_agent_is_told_why(guarded: AgentDev) -> None:
    code, said = sh(guarded, "touch kept; rm -rf / --no-preserve-root; test -e kept && exit 7")
    assert code == 7
    assert said.count("agent-dev: rm was not started: this would remove the system") == 1
    assert "You are in a sandbox of agent-dev's." in said


def test_a_rule_of_the_users_own_holds_and_its_message_is_shown(guarded: AgentDev) -> None:
    code, said = sh(guarded, "touch allowed; touch forbidden")
    assert (code, "not that one." in said) == (126, True)
    assert guarded.changes() == {"allowed": "added"}


def test_every_command_is_written_down_in_a_chain_that_ends_in_the_record(guarded: AgentDev) -> None:
    sh(guarded, "cd sub; touch x; touch forbidden; env A=b /bin/true")
    first, rows = log(guarded)[:-4], log(guarded)[-4:]
    assert {row["argv"][0] for row in first} == {"sh"}  # more than one where a busy machine was long on its way along the PATH
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
    assert events.commands(held, record).problem == ""
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join(text[:-1]))
    assert f"{count} were written" in events.commands(held, record).problem
    number = next(number for number, line in enumerate(text) if '["touch", "x"]' in line)
    text[number] = text[number].replace('"x"', '"y"')
    path.write_text("".join(text))
    assert f"changed after line {number}" in events.commands(held, record).problem


def test_how_a_command_ended_that_lasts_is_written_down(guarded: AgentDev) -> None:
    inner = "read go; exit 7"
    with guarded.started("--no-merge", "--", "sh", "-c", f"touch x; sh -c '{inner}'; exit 5") as process:
        wait_until(lambda: has_begun(guarded, inner), "its row")
        process.communicate("\n", timeout=60)
    begun = {row["pid"]: row for row in log(guarded)}
    found = [row for row in ends(guarded) if row["argv"][0] == "sh"]  # on a busy machine a touch lasts, too
    assert sorted((row["argv"][-1] == inner, row["exit"]) for row in found) == [(False, 5), (True, 7)]  # seen in any order
    for row in found:
        assert 0 <= row["duration"] == (row["time"] - begun[row["pid"]]["time"]) // 1_000_000


def test_the_rules_that_decided_are_noted_and_a_file_that_was_spoilt_meanwhile_stops_nothing(guarded: AgentDev) -> None:
    sh(guarded, "touch one")
    before = json.loads((session(guarded) / "session.json").read_text())["policy"]
    own = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev/policy.yaml"
    with guarded.started("--no-merge", "--", "sh", "-c", "touch two; echo ready; read x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        own.write_text("guard: [this is no set of rules\n")
        _, said = process.communicate("\n", timeout=60)
    assert (process.returncode, "waits:" in said) == (0, True)
    own.write_text(OWN)
    record = json.loads((session(guarded) / "session.json").read_text())
    assert (record["state"], record["policy"]) == ("waiting", before)


def test_a_resumed_session_goes_on_with_its_log(guarded: AgentDev) -> None:
    sh(guarded, "touch x")
    before = len(log(guarded))
    assert guarded("--no-merge", "resume", "--", "touch", "y").returncode == 0
    assert {tuple(row["argv"]) for row in log(guarded)[before:]} == {("touch", "y")}


def test_secrets_are_not_written_down(guarded: AgentDev) -> None:
    sh(guarded, "touch x; /bin/true --token hunter22; env API_SECRET=hunter22 true; /bin/true https://ada:hunter22@example.org")
    text = (session(guarded) / "commands.jsonl").read_text()
    assert "hunter22" not in text
    assert '"--token", "***"' in text


def test_nothing_of_it_is_within_the_agents_reach(guarded: AgentDev) -> None:
    code, said = sh(guarded, f"ls {guarded.state} {guarded.state}/sessions; kill -9 1; touch x; true")
    assert (code, "commands.jsonl" in said) == (0, False)
    assert log(guarded)


def test_without_a_policy_there_is_neither_filter_nor_log(agent_dev: AgentDev) -> None:
    count = "grep Seccomp_filters /proc/self/status; touch x"
    _, watched = sh(agent_dev, count)
    assert (session(agent_dev) / "commands.jsonl").exists()
    folder = Path(agent_dev.env["XDG_CONFIG_HOME"]) / "agent-dev"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text('policy: "off"\n')
    _, plain = sh(agent_dev, count)
    assert not (session(agent_dev) / "commands.jsonl").exists()
    filters = [int(next(line for line in said.splitlines() if "Seccomp_filters" in line).split()[1]) for said in (plain, watched)]
    assert filters[1] == filters[0] + 1


def test_a_policy_that_cannot_be_read_stops_the_start(guarded: AgentDev) -> None:
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "policy.yaml"
    path.write_text(OWN.replace("decision: deny", "decision: den"))
    done = guarded("true")
    assert (done.returncode, "did you mean deny?" in done.stderr) == (125, True)
    assert wait_until(lambda: not guarded.leavings(), "nothing is left")


def test_a_transaction_fails_when_the_policy_stopped_a_command(guarded: AgentDev) -> None:
    before = tree(guarded.repo)
    done = guarded("tx", "--json", "--", "sh", "-c", "touch new; touch forbidden; true")
    assert (done.returncode, json.loads(done.stdout)["cause"]) == (1, "policy")
    assert tree(guarded.repo) == before


# Keeping


def checkpoints(agent_dev: AgentDev) -> list[dict[str, Any]]:
    found = agent_dev("checkpoints", "--json")
    assert found.returncode == 0, found.stderr
    rows: list[dict[str, Any]] = json.loads(found.stdout)["checkpoints"]
    return rows


def test_before_a_tree_is_removed_a_checkpoint_is_taken_that_brings_it_back(guarded: AgentDev) -> None:
    code, said = sh(guarded, "echo y >y; mkdir made; echo only-here >made/x; rm -rf made; test ! -e made && exit 7")
    assert code == 7, said
    row = next(row for row in log(guarded) if row["argv"][0] == "rm")
    assert (row["decision"], row["rule"]) == ("checkpoint", "remove-trees")
    taken = next(one for one in checkpoints(guarded) if one["checkpoint"] == row["checkpoint"])
    assert taken["cause"] in ("rm -rf made", "start")  # the one of the start, when nothing has changed since that
    assert guarded("rollback", str(row["checkpoint"])).returncode == 0
    assert guarded.changes() == {"made/x": "added", "y": "added"}


def test_a_checkpoint_that_fails_stops_nothing(guarded: AgentDev) -> None:
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    path.write_text("policy: guard\ncheckpoint_minutes: 0\n")  # one at the start would make the directory again
    with guarded.started("--no-merge", "--", "sh", "-c", "mkdir made; echo ready; read go; rm -rf made; echo x >x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        shutil.rmtree(session(guarded) / "checkpoints", ignore_errors=True)
        (session(guarded) / "checkpoints").write_text("in the way")
        process.communicate("\n", timeout=60)
    assert guarded.changes() == {"x": "added"}
    assert "no checkpoint" in next(row for row in log(guarded) if row["argv"][0] == "rm")["problem"]


def test_what_a_command_changed_is_rolled_back_when_it_fails_and_stays_when_it_does_not(guarded: AgentDev) -> None:
    def transacted(script: str) -> str:
        return f"sh -c '{script}' transacted"

    wait = "for _ in $(seq 1500); do test -e bad || break; sleep 0.02; done"  # rolled back beside the shell that goes on
    script = (
        f"echo y >y; {transacted('echo good >good')}; {transacted('echo bad >bad; rm -r sub; exit 3')}; {wait}; cat sub/app.py"
    )
    code, said = sh(guarded, script)
    assert (code, "print('two')" in said) == (0, True), said
    assert guarded.changes() == {"good": "added", "y": "added"}
    found = [(row["exit"], row.get("rolled_back")) for row in ends(guarded) if row["argv"][-1] == "transacted"]
    assert found == [(0, None), (3, True)]


# A transaction's process becomes another program, or it was another before.
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
def test_a_command_that_becomes_another_program_is_rolled_back_all_the_same(guarded: AgentDev, way: str) -> None:
    command, awaited = BECOMING[way]
    with guarded.started("--no-merge", "--", "sh", "-c", f"{command}; read last; touch over") as process:
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
    """Whether a shell with a script that begins so is in the log."""
    return f'"argv": ["sh", "-c", "{script}' in written(agent_dev)


# Asking


def test_the_user_answers_in_another_terminal(guarded: AgentDev) -> None:
    with asking(guarded, "touch asked; echo $?; touch later") as process:
        listed = guarded("approve").stdout
        assert "touch asked" in listed
        row = json.loads(guarded("approve", "--json").stdout)["questions"][0]
        assert row["argv"] == ["touch", "asked"]
        assert isinstance(row["until"], int)
        assert 0 < row["until"] - row["time"] < 10**12  # both in nanoseconds
        assert guarded("approve", "2").returncode == 2
        done = guarded("approve", "1")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "agent-dev: may start: 1  touch asked\n")
        said, _ = process.communicate(timeout=60)
    assert said == "0\n"
    assert guarded.changes() == {"asked": "added", "later": "added"}
    assert [row.get("answer") for row in log(guarded)][-2:] == ["yes", None]


def test_the_user_says_no(guarded: AgentDev) -> None:
    with asking(guarded, "touch asked; touch later") as process:
        done = guarded("approve", "--deny", "1")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "agent-dev: denied: 1  touch asked\n")
        _, said = process.communicate(timeout=60)
    assert "the user said no. think again." in said
    assert guarded.changes() == {"later": "added"}


def test_without_an_answer_in_time_it_is_denied(guarded: AgentDev) -> None:
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "config.yaml"
    path.write_text("policy: guard\nask_seconds: 1\n")
    _, said = sh(guarded, "touch asked; touch later")
    assert "nobody answered in time" in said
    assert guarded.changes() == {"later": "added"}
    assert [row.get("answer") for row in log(guarded)][-2:] == ["none", None]


def test_other_commands_go_on_while_one_waits(guarded: AgentDev) -> None:
    with asking(guarded, "touch asked & touch other; /bin/true; touch more; wait") as process:
        root = session(guarded) / "roots" / "0" / "upper"
        wait_until((root / "more").exists, "another command ran")
        assert not (root / "asked").exists()
        guarded("approve", "1")
        process.communicate(timeout=60)
    assert (root / "asked").exists()


# Closed


def test_who_is_gone_before_the_answer_was_not_denied(guarded: AgentDev) -> None:
    script = "touch asked & read go; kill -9 $!; wait $!; echo $?; touch later"
    with guarded.started("tx", "--", "sh", "-c", script) as process:
        wait_until(lambda: list(guarded.state.glob("sessions/*/asks/1.json")), "the question is asked")
        assert process.communicate("\n", timeout=60)[0].startswith("137\n")
    assert (process.returncode, (guarded.repo / "later").exists()) == (0, True)


def test_when_nobody_is_left_to_answer_nothing_starts(guarded: AgentDev) -> None:
    script = "echo ready; read go; /bin/true; echo $?; /bin/touch x; echo $?"
    with guarded.started("--no-merge", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(wait_until(lambda: watcher(process.pid), "what watches is there"), signal.SIGKILL)
        said, _ = process.communicate("\n", timeout=60)
    assert [int(code) for code in said.split()] == [126, 126] or all(int(code) for code in said.split())
    assert not list((guarded.state / "sessions").glob("*/roots/0/upper/x"))


@pytest.mark.parametrize("step", ["run", "_hear"], ids=["at once", "at the first command"])
def test_when_what_watches_ends_before_anything_started_the_start_fails(guarded: AgentDev, step: str) -> None:
    code = (
        f"from agent_dev import cli; from agent_dev.policy.service import Service; Service.{step} = lambda *_: 1 / 0; cli.main()"
    )
    command = (sys.executable, "-c", code, "--no-merge", "--", "touch", "x")
    done = subprocess.run(command, env=guarded.env, cwd=guarded.repo, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 125
    assert "agent-dev: what watches the commands ended" in done.stderr
    assert not (guarded.repo / "x").exists()


# A launcher that goes on only when the sandbox's first process, which it has just told to, has ended and was waited for.
LATE = """
import os, select
from agent_dev import cli
from agent_dev.policy.service import Service
Service._hear = lambda *_: 1 / 0
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


def test_when_what_watches_ends_at_the_first_command_a_launcher_that_looks_late_says_so_too(guarded: AgentDev) -> None:
    command = (sys.executable, "-c", LATE, "--no-merge", "--", "touch", "x")
    done = subprocess.run(command, env=guarded.env, cwd=guarded.repo, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "agent-dev: what watches the commands ended" in done.stderr) == (125, True), done.stderr


def test_words_that_cannot_be_read_are_not_started(guarded: AgentDev) -> None:
    code = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "libc.execve(b'/bin/true', ctypes.c_void_p(8), None)\nprint(ctypes.get_errno())"
    )
    done = guarded("--no-merge", "--", PYTHON, "-I", "-c", code)
    assert int(done.stdout) in (1, 14)  # EPERM, or EFAULT where the kernel was first


def test_a_message_is_not_waited_for_where_nobody_reads(guarded: AgentDev) -> None:
    code = (
        "import os, subprocess\nr, w = os.pipe()\nos.set_blocking(w, False)\n"
        "try:\n while True: os.write(w, bytes(4096))\nexcept BlockingIOError: pass\nos.set_blocking(w, True)\n"
        "try: subprocess.run(['touch', 'forbidden'], stderr=w)\nexcept PermissionError: print('denied')"
    )
    assert guarded("--no-merge", "--", PYTHON, "-I", "-c", code).stdout == "denied\n"


# Ways round: each removes a directory that the rule on `rm -rf` would have stopped, and none reaches the user's files


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
def test_a_way_round_the_rail_ends_at_the_wall(guarded: AgentDev, way: str) -> None:
    path = Path(guarded.env["XDG_CONFIG_HOME"]) / "agent-dev" / "policy.yaml"
    path.write_text("guard:\n  rules:\n    - {name: no-rm, programs: [rm], decision: deny}\n")
    before = tree(guarded.repo)
    assert sh(guarded, "rm -rf sub")[0] == 126
    code, said = sh(guarded, f"{ROUND[way]}; test ! -e sub && exit 7")
    assert code == 7, said  # the rail was got round: inside, the directory is gone
    assert tree(guarded.repo) == before  # and the real one is not
    assert guarded.changes()["sub/app.py"] == "deleted"  # it is shown before anything is merged
