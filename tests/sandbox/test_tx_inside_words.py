"""The words of `tx` inside a session: found where a session starts with them, refused where they make no sense."""

import json

import pytest

from tests.harness.door import LOOK, NAMES, sh
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
def test_words_that_it_does_not_know_are_refused_with_what_to_do(inside: AgentDev, words: str) -> None:
    said, told = sh(inside, f"{words} 2>told; echo $?; wc -l <told; cat told")
    code, lines, *rest = said.splitlines()
    assert code == ("125" if words.startswith("tx") else "2")  # as outside
    assert (int(lines) == 2 and "--help" in rest[1]) or rest[0].startswith("usage: tx"), told


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
def test_its_words_may_be_what_a_session_starts_with(inside: AgentDev, words: tuple[str, ...], changes: dict[str, str]) -> None:
    done = inside("--no-merge", "--", *words)
    assert done.returncode == 0, done.stderr
    assert (inside.changes() if changes else {}) == changes


def test_the_code_of_a_transaction_that_a_session_starts_with_is_the_sessions(inside: AgentDev) -> None:
    assert inside("--no-merge", "--", "tx", "sh", "-c", "echo x >new; exit 3").returncode == 3
    assert inside("--no-merge", "--", "rollback", "9").returncode == 1


@pytest.mark.parametrize("word", ["tx", "checkpoint", "rollback", "agent-dev"])
def test_where_it_is_off_its_words_are_not_found_and_the_hint_says_how_to_have_them(agent_dev: AgentDev, word: str) -> None:
    done = agent_dev("--", word, "true")
    assert done.returncode == 127
    assert done.stderr.splitlines()[0].startswith(f"agent-dev: {word}: not found")
    assert "`tx_inside: true`" in done.stderr.splitlines()[1]


def test_with_direct_its_words_are_not_found_and_the_hint_says_why(inside: AgentDev) -> None:
    done = inside("run", "--direct=copy", "--", "tx", "touch", "new")
    assert done.returncode == 127
    assert "leave --direct" in done.stderr
    assert not (inside.repo / "new").exists()


def test_other_words_are_not_there_though_the_door_is(inside: AgentDev) -> None:
    done = inside("--", "txx", "true")
    assert (done.returncode, "txx: not found" in done.stderr) == (127, True)


def test_a_checkpoint_that_has_a_message_keeps_it_when_nothing_changed(inside: AgentDev) -> None:
    said, _ = sh(inside, "echo 1 >new; checkpoint -m one; checkpoint -m two; checkpoint")
    numbers = [int(line.split()[1]) for line in said.splitlines()]
    assert numbers[0] < numbers[1] == numbers[2]
    told = {row["checkpoint"]: row["message"] for row in json.loads(inside("checkpoints", "--json").stdout)["checkpoints"]}
    assert [told[number] for number in numbers[:2]] == ["one", "two"]


def test_bare_words_are_those_behind_agent_dev(inside: AgentDev) -> None:
    said, _ = sh(inside, "echo 1 >new; checkpoint -m one; echo 2 >new; rollback 1; cat new; rollback x 2>/dev/null; echo $?")
    assert said == "checkpoint 1\nas at checkpoint 1\n1\n2\n"


@pytest.mark.parametrize("path", ["./plain", "plain"])
def test_a_script_without_a_first_line_is_one_for_the_shell_as_everywhere(inside: AgentDev, path: str) -> None:
    (inside.repo / "plain").write_text('echo "$0 $1" >new\n')
    (inside.repo / "plain").chmod(0o755)
    said, told = sh(inside, f"PATH=/nowhere:.:$PATH tx {path} one; echo $?; cat new")
    assert said == "0\n./plain one\n", told


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
def test_streams_that_are_closed_or_full_change_nothing_of_what_is_done(inside: AgentDev, words: str, code: int) -> None:
    said, told = sh(inside, f"{words}; echo $?; {LOOK}")
    new = "new: x\n" if "new" in words and not code else ""
    assert said == f"{code}\nREADME.md: # Shop\n{new}sub:\n"
    assert "Traceback" not in told


@pytest.mark.parametrize("words", ["tx --json sh -c 'echo x >new'", "checkpoint"])
def test_what_cannot_be_told_is_done_all_the_same_and_that_is_said(inside: AgentDev, words: str) -> None:
    said, told = sh(inside, f"{words} >/dev/full; echo $?; cat new 2>/dev/null; true")
    assert said == ("1\nx\n" if "new" in words else "1\n")
    assert "agent-dev: the output could not be written: No space left on device" in told


@pytest.mark.parametrize(
    "words", ["--timeout 1e12", "--timeout 99999999999", "--limit time=1e10d", "--timeout nan", "--timeout inf"]
)
def test_a_time_that_no_clock_could_measure_is_refused(inside: AgentDev, words: str) -> None:
    said, told = sh(inside, f"tx {words} sh -c 'echo x >new'; echo $?; {LOOK}")
    assert said == f"125\n{NAMES}"
    assert told.splitlines()[0].startswith(f"agent-dev: tx: {words.split(maxsplit=1)[0]} wants")


def test_a_list_without_an_end_is_refused(inside: AgentDev) -> None:
    said, told = sh(inside, "tx --many /dev/zero; echo $?")
    assert said == "125\n"
    assert "it is too long" in told
