"""Verbs and arguments inside a session: a session can start with a verb, and invalid ones are refused."""

import json

import pytest

from tests.harness.control_socket import NAMES, PRINT_FILES, run_script
from tests.harness.program import AgentDev


@pytest.mark.parametrize(
    "words",
    [
        "tx",
        "tx --",
        "tx --jobs 1 -- true",
        "tx --first -- true",
        "tx --jobs 0 --many /etc/hostname",
        "tx --jobs x --many /etc/hostname",
        "tx --many /nowhere",
        "tx --many /dev/null",
        "tx --many /etc/hostname true",
        "tx --limit time=x -- true",
        "tx --limit processes=9 -- true",
        "tx --limit memory -- true",
        "tx --take",
        "tx --take= true",
        "tx --timeout 0 true",
        "agent-dev",
        "agent-dev merge",
        "agent-dev rollback x",
    ],
)
def test_unknown_arguments_are_refused_with_a_hint(inside: AgentDev, words: str) -> None:
    printed, reported = run_script(inside, f"{words} 2>told; echo $?; wc -l <told; cat told")
    code, lines, *rest = printed.splitlines()
    assert code == ("125" if words.startswith("tx") else "2")  # the same as outside
    assert (int(lines) == 2 and "--help" in rest[1]) or rest[0].startswith("usage: tx"), reported


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (("tx", "sh", "-c", "echo x >new"), {"new": "added"}),
        (("agent-dev", "tx", "sh", "-c", "echo x >new"), {"new": "added"}),
        (("/run/agent-dev/bin/tx", "sh", "-c", "echo x >new"), {"new": "added"}),
        (("checkpoint", "-m", "first"), {}),
        (("agent-dev", "checkpoint"), {}),
    ],
)
def test_a_session_may_start_with_an_inner_verb(inside: AgentDev, words: tuple[str, ...], changes: dict[str, str]) -> None:
    done = inside("--no-merge", "--", *words)
    assert done.returncode == 0, done.stderr
    assert (inside.changes() if changes else {}) == changes


def test_a_sessions_first_transaction_determines_its_exit_code(inside: AgentDev) -> None:
    assert inside("--no-merge", "--", "tx", "sh", "-c", "echo x >new; exit 3").returncode == 3
    assert inside("--no-merge", "--", "rollback", "9").returncode == 1


@pytest.mark.parametrize("word", ["tx", "checkpoint", "rollback", "agent-dev"])
def test_when_disabled_the_verbs_are_missing_with_a_hint_to_enable_them(agent_dev: AgentDev, word: str) -> None:
    done = agent_dev("--", word, "true")
    assert done.returncode == 127
    assert done.stderr.splitlines()[0].startswith(f"agent-dev: {word}: not found")
    assert "`tx_inside: true`" in done.stderr.splitlines()[1]


def test_with_direct_the_verbs_are_missing_with_a_hint(inside: AgentDev) -> None:
    done = inside("run", "--direct=copy", "--", "tx", "touch", "new")
    assert done.returncode == 127
    assert "remove --direct" in done.stderr
    assert not (inside.repo / "new").exists()


def test_other_verbs_do_not_exist_despite_the_control_socket(inside: AgentDev) -> None:
    done = inside("--", "txx", "true")
    assert (done.returncode, "txx: not found" in done.stderr) == (127, True)


def test_a_checkpoint_with_a_message_keeps_it_without_changes(inside: AgentDev) -> None:
    printed, _ = run_script(inside, "echo 1 >new; checkpoint -m one; checkpoint -m two; checkpoint")
    numbers = [int(line.split()[1]) for line in printed.splitlines()]
    assert numbers[0] < numbers[1] == numbers[2]
    reported = {row["checkpoint"]: row["message"] for row in json.loads(inside("checkpoints", "--json").stdout)["checkpoints"]}
    assert [reported[number] for number in numbers[:2]] == ["one", "two"]


def test_bare_verbs_equal_those_of_agent_dev(inside: AgentDev) -> None:
    printed, _ = run_script(
        inside, "echo 1 >new; checkpoint -m one; echo 2 >new; rollback 1; cat new; rollback x 2>/dev/null; echo $?"
    )
    assert printed == "checkpoint 1\nrolled back to checkpoint 1\n1\n2\n"


@pytest.mark.parametrize("path", ["./plain", "plain"])
def test_a_script_without_a_shebang_is_run_by_the_shell(inside: AgentDev, path: str) -> None:
    (inside.repo / "plain").write_text('echo "$0 $1" >new\n')
    (inside.repo / "plain").chmod(0o755)
    printed, reported = run_script(inside, f"PATH=/nowhere:.:$PATH tx {path} one; echo $?; cat new")
    assert printed == "0\n./plain one\n", reported


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("tx sh -c 'echo x >new' >&-", 0),
        ("tx --json sh -c 'echo x >new' >&-", 0),
        ("tx --json sh -c 'echo x >new; exit 3' >&-", 3),
        ("tx sh -c 'echo x >new; exit 3' 2>&-", 3),
        ("tx sh -c 'echo x >new; exit 3' 2>/dev/full", 3),
        ("tx sh -c 'echo x >new; ! test -e /proc/self/fd/0' <&-", 0),
        ("tx sh -c 'echo x >new; exit 3' <&- >&- 2>&-", 3),
        ("tx --help >&-", 0),
        ("checkpoint >&-", 0),
        ("rollback 99 2>&-", 1),
    ],
)
def test_closed_or_full_streams_do_not_change_the_result(inside: AgentDev, words: str, code: int) -> None:
    printed, reported = run_script(inside, f"{words}; echo $?; {PRINT_FILES}")
    new = "new: x\n" if "new" in words and not code else ""
    assert printed == f"{code}\nREADME.md: # Shop\n{new}sub:\n"
    assert "Traceback" not in reported


@pytest.mark.parametrize("words", ["tx --json sh -c 'echo x >new'", "checkpoint"])
def test_an_unreportable_result_is_kept_and_the_failure_reported(inside: AgentDev, words: str) -> None:
    printed, reported = run_script(inside, f"{words} >/dev/full; echo $?; cat new 2>/dev/null; true")
    assert printed == ("1\nx\n" if "new" in words else "1\n")
    assert "agent-dev: cannot write the output: No space left on device" in reported


@pytest.mark.parametrize(
    "words", ["--timeout 1e12", "--timeout 99999999999", "--limit time=1e10d", "--timeout nan", "--timeout inf"]
)
def test_an_out_of_range_time_limit_is_refused(inside: AgentDev, words: str) -> None:
    printed, reported = run_script(inside, f"tx {words} sh -c 'echo x >new'; echo $?; {PRINT_FILES}")
    assert printed == f"125\n{NAMES}"
    assert reported.splitlines()[0].startswith(f"agent-dev: tx: {words.split(maxsplit=1)[0]} needs")


def test_an_endless_list_is_refused(inside: AgentDev) -> None:
    printed, reported = run_script(inside, "tx --many /dev/zero; echo $?")
    assert printed == "125\n"
    assert "file too large" in reported
