"""`tx` inside a session: changes of failed commands are rolled back, also if nested, concurrent or killed."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness.control_socket import NAMES, PRINT_FILES, run_script
from tests.harness.program import PYTHON, AgentDev, children, open_descriptors, wait_until


def verdicts(agent_dev: AgentDev, session: str = "") -> list[str]:
    rows: list[dict[str, Any]] = json.loads(agent_dev("log", *([session] if session else []), "--json").stdout)["events"]
    return [row["verdict"] for row in rows if row["event"] == "inside"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("sh -c 'echo x >new; rm -r sub; exit 3'", 3),
        ("sh -c 'echo x >new; kill -9 $$'", 137),
        ("sh -c 'echo x >new; kill -INT $$'", 130),
        ("sh -c 'echo x >new; kill -TERM $PPID; exec sleep 60'", 143),  # tx forwards the signal to the command
        ("/nowhere", 127),
        ("./README.md", 126),
    ],
)
def test_changes_of_a_failed_command_are_rolled_back_with_its_exit_code(inside: AgentDev, command: str, code: int) -> None:
    printed, reported = run_script(inside, f"echo before >kept; tx {command}; echo $?; {PRINT_FILES}; cat sub/app.py")
    assert printed == f"{code}\nREADME.md: # Shop\nkept: before\nsub:\nprint('two')\n"
    assert f"rolled back to checkpoint 1: {command.split(maxsplit=1)[0]} exited with status {code}" in reported


def test_changes_of_a_successful_command_are_kept(inside: AgentDev) -> None:
    printed, reported = run_script(inside, f"agent-dev tx -- sh -c 'echo x >new; rm -r sub'; echo $?; {PRINT_FILES}")
    assert (printed, reported.count("rolled back")) == ("0\nREADME.md: # Shop\nnew: x\n", 0)
    assert verdicts(inside) == ["committed"]


@pytest.mark.parametrize("more", ["nested: false", "policy: guard", "net: none", "nested: false\npolicy: guard\nnet: none"])
def test_inner_transactions_work_with_landlock_and_the_policy(inside: AgentDev, more: str) -> None:
    config = Path(inside.env["XDG_CONFIG_HOME"]) / "agent-dev/config.yaml"
    config.write_text(f"{config.read_text()}{more}\n")
    printed, _ = run_script(
        inside, f"tx sh -c 'rm -rf sub; exit 3'; echo $?; tx sh -c 'rm -rf sub; echo y >new'; echo $?; {PRINT_FILES}"
    )
    assert printed == "3\n0\nREADME.md: # Shop\nnew: y\n"


def test_changes_are_kept_only_when_every_validation_passes(inside: AgentDev) -> None:
    script = f"""
    tx --validate 'test -e new' --validate='echo w >more; test $(cat new) = x' -- sh -c 'echo x >new'; echo $?
    tx --validate 'test -e new' --validate 'echo w >most; exit 7' --validate 'echo v >last' sh -c 'rm new'; echo $?
    tx --validate true --validate 'echo w >most; exit 7' --validate 'echo v >last' rm new; echo $?; {PRINT_FILES}"""
    printed, reported = run_script(inside, script)
    assert printed == "0\n1\n1\nREADME.md: # Shop\nmore: w\nnew: x\nsub:\n"
    assert "rolled back to checkpoint 2: the validation exited with status 1: test -e new" in reported
    assert "the validation exited with status 7: echo w >most; exit 7" in reported


def test_a_timeout_rolls_back_and_kills_every_started_process(inside: AgentDev) -> None:
    script = f"""
    echo 'echo $$ >/tmp/pid; sleep 300; echo y >late' >/tmp/lasting
    tx --timeout 2 sh -c 'echo x >new; (trap "" TERM; setsid sh /tmp/lasting &); sleep 300'; echo $?
    kill -0 $(cat /tmp/pid) 2>/dev/null || echo killed; {PRINT_FILES}"""
    printed, reported = run_script(inside, script)
    assert printed == f"124\nkilled\n{NAMES}"
    assert "rolled back to checkpoint 1: timed out after 2 s" in reported


def test_only_selected_paths_are_kept(inside: AgentDev) -> None:
    change = "mkdir -p lib/new; echo x >lib/new/x; echo y >lib/y; echo other >README.md; rm -r sub; echo z >odd%name"
    script = f"""
    echo before >kept; cd sub
    tx --take ../lib/new --take=../odd%name --take ../nowhere sh -c 'cd ..; echo after >kept; {change}'; echo $?
    cd ..; {PRINT_FILES}; ls lib lib/new; cat sub/app.py"""
    printed, _ = run_script(inside, script)
    names = "README.md: # Shop\nkept: before\nlib:\nodd%name: z\nsub:\n"
    assert printed == f"0\n{names}lib:\nnew\n\nlib/new:\nx\nprint('two')\n"
    assert verdicts(inside) == ["committed"]


def test_more_paths_than_the_protocol_allows_start_nothing(inside: AgentDev) -> None:
    printed, reported = run_script(inside, f"tx --take {'x' * 1100} sh -c 'echo x >new'; echo $?; {PRINT_FILES}")
    assert printed == f"125\n{NAMES}"
    assert "not started: too many paths for one request" in reported


def test_json_has_the_same_keys_as_outside(inside: AgentDev) -> None:
    outside = json.loads(inside("tx", "--json", "--", "sh", "-c", "echo said; exit 3").stdout)
    documents = "".join(f"tx --json {words} >/tmp/{number}; " for number, words in enumerate(JSON))
    printed, _ = run_script(
        inside, f"{documents} rm -f /run/agent-dev/control 2>/dev/null; cat /tmp/0; echo ,; cat /tmp/1; echo ,; cat /tmp/2"
    )
    rows = json.loads(f"[{printed}]")
    assert [set(row) for row in rows] == [set(outside)] * 3
    found = [(row["state"], row["exit"], row["cause"], [step["exit"] for step in row["steps"]]) for row in rows]
    assert found == [("merged", 0, None, [0, 0]), ("failed", 3, "command", [3]), ("failed", 1, "validation", [0, 1])]
    assert rows[1]["reason"] == "rolled back to checkpoint 2: sh exited with status 3"
    assert rows[1]["steps"][0]["command"] == ["sh", "-c", "echo said; exit 3"]


JSON = ("--validate true -- sh -c 'echo said >new'", "-- sh -c 'echo said; exit 3'", "--validate false -- true")


@pytest.mark.parametrize(
    ("limit", "command", "code", "why"),
    [
        ("time=2s", "echo x >new; sleep 300", 1, "reached the limit time=2s"),
        ("file-size=4K", "head -c 4097 /dev/zero >new", 1, "reached the limit file-size=4096"),
        ("file-size=4K", "head -c 4096 /dev/zero >/tmp/fits; exit 9", 9, "sh exited with status 9"),
        ("open-files=16", "test $(ulimit -n) = 16 && echo x >new && exit 8", 8, "sh exited with status 8"),
        ("memory=64M", f"echo x >new; {PYTHON} -c 'bytearray(1 << 27)'", 1, "sh exited with status 1"),
    ],
)
def test_a_reached_limit_rolls_back(inside: AgentDev, limit: str, command: str, code: int, why: str) -> None:
    printed, reported = run_script(
        inside, f"cat >/tmp/script <<'E'\n{command}\nE\ntx --limit {limit} sh /tmp/script; echo $?; {PRINT_FILES}"
    )
    assert printed == f"{code}\n{NAMES}"
    assert why in reported


def test_options_of_merge_are_accepted_and_have_no_effect(inside: AgentDev) -> None:
    words = "--allow executable --include-risky --include-ignored --yes-delete-many"
    printed, _ = run_script(inside, f"tx {words} -- sh -c 'echo x >new; chmod +x new'; echo $?; {PRINT_FILES}")
    assert printed == "0\nREADME.md: # Shop\nnew: x\nsub:\n"


SETUP = "from setuptools import setup; setup(name='shop', version='1', packages=['shop'])"
PIP = f"{PYTHON} -m pip --disable-pip-version-check"
FILES = "find . -path ./.git -prune -o -type f -print | sort | sed s/^/:/"


@pytest.mark.slow
def test_a_failed_pip_install_leaves_the_previous_files(inside: AgentDev) -> None:
    if inside("--", "sh", "-c", f"{PIP} --version && {PYTHON} -c 'import setuptools, wheel'").returncode:
        pytest.skip("the system's Python has no pip, setuptools and wheel")
    install = f"{PIP} install -q --no-index --no-deps --no-build-isolation --target lib"
    script = f"""
    mkdir -p one/shop two; echo one >one/shop/__init__.py; echo "{SETUP}" >one/setup.py; echo 'raise SystemExit(9)' >two/setup.py
    tx {install} ./one >&2; echo $?; cat lib/shop/__init__.py
    {FILES} >/tmp/before
    tx {install} --upgrade ./one ./two >/dev/null 2>&1; echo $?
    {FILES} | cmp - /tmp/before && cat lib/shop/__init__.py"""
    printed, reported = run_script(inside, script)
    assert printed == "0\none\n1\none\n", reported


def test_an_inner_rollback_leaves_the_outer_and_an_outer_includes_the_inner(inside: AgentDev) -> None:
    inner = "echo a >a; tx sh -c 'echo b >b; exit 1'; tx sh -c 'echo c >c'"
    printed, _ = run_script(
        inside, f'tx sh -c "{inner}"; echo $?; {PRINT_FILES}; tx sh -c "echo d >a; {inner}; exit 2"; echo $?; {PRINT_FILES}'
    )
    one = "README.md: # Shop\na: a\nc: c\nsub:\n"
    assert printed == f"0\n{one}2\n{one}"
    assert verdicts(inside) == ["rolled back", "committed", "committed", "rolled back", "committed", "rolled back"]


def test_two_concurrent_transactions_take_turns_and_keep_each_others_changes(inside: AgentDev) -> None:
    script = f"""
    mkfifo /tmp/go
    tx sh -c 'echo a >a; read x </tmp/go; exit 1' & first=$!
    until test -e a; do sleep 0.02; done
    tx sh -c 'echo b >b' 2>/tmp/told & second=$!
    until grep -q waiting /tmp/told; do sleep 0.02; done
    echo >/tmp/go
    wait $first; echo $?; wait $second; echo $?; {PRINT_FILES}"""
    printed, _ = run_script(inside, script)
    assert printed == "1\n0\nREADME.md: # Shop\nb: b\nsub:\n"


def test_a_killed_transaction_is_rolled_back(inside: AgentDev) -> None:
    printed, _ = run_script(
        inside, f"tx sh -c 'echo x >new; kill -9 $PPID; exec true'; while test -e new; do sleep 0.02; done; {PRINT_FILES}"
    )
    assert printed == NAMES


def test_the_inner_of_a_killed_and_rolled_back_transaction_cannot_commit(inside: AgentDev) -> None:
    inner = "echo b >b; : >/tmp/in; read x </tmp/go"
    script = f"""
    mkfifo /tmp/go
    tx sh -c 'echo a >a; echo $PPID >/tmp/outer; tx sh -c "{inner}" 2>/tmp/told; echo $? >/tmp/code; : >/tmp/out' &
    until test -e /tmp/in; do sleep 0.02; done
    kill -9 $(cat /tmp/outer)
    while test -e a; do sleep 0.02; done
    echo >/tmp/go
    until test -e /tmp/out; do sleep 0.02; done
    cat /tmp/code /tmp/told; {PRINT_FILES}"""
    printed, _ = run_script(inside, script)
    assert printed == f"1\nagent-dev: rolled back together with the outer transaction\n{NAMES}"


OPEN = "tx sh -c 'echo x >x; : >/tmp/in; exec sleep 60' & until test -e /tmp/in; do sleep 0.02; done; echo y >y"


def test_an_open_transaction_is_rolled_back_at_session_end_and_can_be_undone(inside: AgentDev) -> None:
    done = inside("--no-merge", "--", "sh", "-c", f"echo k >kept; {OPEN}")
    assert "the agent left a transaction open: rolled back to checkpoint 1" in done.stderr
    assert inside.changes() == {"kept": "added"}
    before = done.stderr.partition("the previous state is checkpoint ")[2].split()[0]
    assert inside("rollback", before).returncode == 0
    assert inside.changes() == {"kept": "added", "x": "added", "y": "added"}


def test_a_session_fully_rolled_back_at_its_end_is_kept(inside: AgentDev) -> None:
    inside("--no-merge", "--", "sh", "-c", OPEN)
    [row] = inside.sessions()
    assert verdicts(inside, row["session"]) == ["left open"]


def test_the_next_holder_rolls_back_a_transaction_of_a_killed_launcher(inside: AgentDev) -> None:
    with inside.start("--no-merge", "--", "sh", "-c", f"echo k >kept; {OPEN}; echo ready; read x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    wait_until(lambda: inside.sessions()[0]["state"] == "killed", "the session is over")
    assert inside("resume", "--", "sh", "-c", f"{PRINT_FILES} >/tmp/x; cat /tmp/x").stdout == "README.md: # Shop\nkept: k\nsub:\n"


def control_server(launcher: int) -> int:
    """Return the control server's PID: the child of the launcher whose descriptor 3 is a socket."""
    [found] = [pid for pid in children(launcher) if open_descriptors(pid).get(3, "").startswith("socket:")]
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["the session ends", "its launcher is killed as well"])
def test_the_session_end_rolls_back_what_a_killed_control_server_left_open(inside: AgentDev, *, killed: bool) -> None:
    script = "echo k >kept; tx sh -c 'echo x >x; echo ready; read y'; echo $?; tx touch z; echo $?; echo y >y; read y"
    with inside.start("--no-merge", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(control_server(process.pid), signal.SIGKILL)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["1\n", "125\n"]
        if killed:
            process.send_signal(signal.SIGKILL)
        _, reported = process.communicate("end\n", timeout=60)
    assert "control socket" in reported
    wait_until(lambda: inside.sessions()[0]["state"] != "running", "the session is over")
    assert ("the agent left a transaction open: rolled back to checkpoint 1" in reported) is not killed
    assert inside.changes() == {"kept": "added"}
    assert verdicts(inside, inside.sessions()[0]["session"]) == ["left open"]


def test_an_agent_takes_and_restores_checkpoints(inside: AgentDev) -> None:
    script = "echo 1 >new; agent-dev checkpoint -m one; echo 2 >new; agent-dev rollback 1; cat new; agent-dev rollback 99 2>&1"
    done = inside("--no-merge", "--", "sh", "-c", script)
    assert done.stdout == "checkpoint 1\nrolled back to checkpoint 1\n1\nagent-dev: no such checkpoint\n"
    assert done.returncode == 1
    reported = json.loads(inside("checkpoints", "--json").stdout)["checkpoints"][0]
    assert (reported["cause"], reported["message"]) == ("the agent", "one")


def test_a_path_outside_the_repository_cannot_be_kept(inside: AgentDev) -> None:
    printed, reported = run_script(inside, f"tx --take /etc sh -c 'echo x >new'; echo $?; {PRINT_FILES}")
    assert printed == f"1\n{NAMES}"
    assert "/etc is outside the repository" in reported


def test_without_the_option_a_session_has_no_control_socket(agent_dev: AgentDev) -> None:
    printed, _ = run_script(
        agent_dev, "ls -d /run/agent-dev/control /run/agent-dev/bin 2>/dev/null; echo $PATH | grep -c agent-dev/bin; true"
    )
    assert printed == "0\n"


def test_the_control_socket_is_removed_with_the_session(inside: AgentDev) -> None:
    run_script(inside, "tx sh -c 'echo x >new'")
    [folder] = (inside.state / "sessions").iterdir()
    assert sorted(path.name for path in folder.iterdir() if path.name in ("control", "transaction")) == []


def test_a_secret_in_a_command_is_masked_in_the_log(inside: AgentDev) -> None:
    run_script(inside, "echo x >new; tx env TOKEN=hunter2hunter2 true")
    [folder] = (inside.state / "sessions").iterdir()
    assert "hunter2" not in (folder / "events.jsonl").read_text()
    assert "hunter2" not in inside("checkpoints", "--json").stdout


def test_the_log_and_the_checkpoints_quote_a_command_as_a_shell_does(agent_dev: AgentDev) -> None:
    agent_dev.do("--no-merge", "bash", "-c", "tx sh -c 'echo b >b; true'")
    assert "transaction inside committed: sh -c 'echo b >b; true'\n" in agent_dev.do("log")
    assert "tx sh -c 'echo b >b; true'" in agent_dev.do("checkpoints")
