"""The commits that arguments select, the refs and messages of imported ones, and the files that both sides edited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.commits.targets import AgentBranch, PickedCommits, kept_ref_name, merge_texts, parse_commit_args
from agent_dev.errors import UsageError
from agent_dev.git.commit_message import add_trailers, format_squash_message
from agent_dev.git.formats.commit_format import ParsedCommit

A, B, C = "a" * 40, "b" * 40, "abc" + "c" * 37
BEFORE = {"HEAD": "ref: refs/heads/main", "refs/heads/main": A}
AFTER = {"HEAD": "ref: refs/heads/x", "refs/heads/main": B, "refs/heads/x": C, "refs/tags/v1": B}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("",), AgentBranch("refs/heads/main", B, A)),
        (("main",), AgentBranch("refs/heads/main", B, A)),
        (("x",), AgentBranch("refs/heads/x", C, "")),
        (("refs/heads/x",), AgentBranch("refs/heads/x", C, "")),
        (("v1",), AgentBranch("refs/tags/v1", B, "")),
        (("bbbb",), PickedCommits((B,))),
        ((C,), PickedCommits((C,))),
        (("bbbb", "x"), PickedCommits((B, C))),
        (("main..x",), PickedCommits(((B, C),))),
        (("bbbb..",), PickedCommits(((B, C),))),
        ((f"{'d' * 40}..x",), PickedCommits((("d" * 40, C),))),
    ],
)
def test_arguments_select_branches_commits_and_ranges(words: tuple[str, ...], meant: AgentBranch | PickedCommits) -> None:
    assert parse_commit_args(words, BEFORE, AFTER, [B, C]) == meant


def test_for_a_session_started_on_no_branch_the_head_is_selected() -> None:
    assert parse_commit_args(("",), {"HEAD": A}, {"HEAD": B}, [B]) == AgentBranch("HEAD", B, A)


@pytest.mark.parametrize(
    ("before", "message", "hint"),
    [
        ({"HEAD": A}, "detached HEAD", "agent-dev merge --commits x --as NAME"),
        ({"HEAD": "ref: refs/heads/gone", "refs/heads/gone": A}, "deleted", "list the commits: agent-dev commits"),
    ],
)
def test_a_missing_first_branch_is_refused_with_its_reason(before: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_commit_args(("",), before, AFTER, [B, C])
    assert refused.value.hint == hint


@pytest.mark.parametrize("word", ["a", "nothing", "--all", "-x", "dddd", "dddd..x", "../x", "a" * 41])
def test_an_unknown_commit_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        parse_commit_args((word,), BEFORE, AFTER, [B, C])


def test_an_ambiguous_commit_is_refused() -> None:
    with pytest.raises(UsageError, match="several"):
        parse_commit_args(("abcd",), BEFORE, AFTER, ["abcd" + "e" * 36, "abcd" + "f" * 36])


def test_refs_are_stored_below_the_sessions_name() -> None:
    assert kept_ref_name("261121-1", "refs/heads/a/b") == "refs/agent-dev/261121-1/heads/a/b"
    assert kept_ref_name("261121-1", "HEAD") == "refs/agent-dev/261121-1/HEAD"


@pytest.mark.parametrize(
    ("before", "yours", "theirs", "result"),
    [
        (b"a\n", b"a\n", b"b\n", b"b\n"),
        (b"a\n", b"a\nmine\n", b"a\nmine\nagent\n", b"a\nmine\nagent\n"),
        (b"1\n2\n3\n", b"0\n2\n3\n", b"1\n2\n4\n", b"0\n2\n4\n"),
        (b"a\n", b"mine\n", b"agent\n", None),
        (b"\0a", b"\0mine", b"\0agent", None),
        (b"\0a", b"\0a", b"\0agent", b"\0agent"),
        (b"\n" * 500_000 + b"a", b"mine\n" + b"\n" * 499_999 + b"a", b"\n" * 500_000 + b"agent", None),  # too many lines
        (b"\n" * 500_001, b"\n" * 500_001, b"agent\n", b"agent\n"),
    ],
)
def test_a_file_edited_on_both_sides_is_merged_or_a_conflict(
    before: bytes, yours: bytes, theirs: bytes, result: bytes | None
) -> None:
    assert merge_texts(before, yours, theirs) == result


TRAILERS = (("Agent", "claude"), ("Session", "x"))


@pytest.mark.parametrize(
    ("message", "result"),
    [
        (b"one\n", b"one\n\nAgent: claude\nSession: x\n"),
        (b"one", b"one\n\nAgent: claude\nSession: x\n"),
        (b"fix: it\n", b"fix: it\n\nAgent: claude\nSession: x\n"),
        (b"one\n\ntext\n", b"one\n\ntext\n\nAgent: claude\nSession: x\n"),
        (b"one\n\nSigned-off-by: A\n", b"one\n\nSigned-off-by: A\nAgent: claude\nSession: x\n"),
        (b"one\n\nAgent: claude\nSession: x\n", b"one\n\nAgent: claude\nSession: x\n"),
    ],
)
def test_trailers_end_a_message(message: bytes, result: bytes) -> None:
    assert add_trailers(message, TRAILERS) == result


@given(st.binary())
def test_trailers_are_added_once(message: bytes) -> None:
    once = add_trailers(message, TRAILERS)

    assert add_trailers(once, TRAILERS) == once


def test_a_squash_of_one_commit_keeps_its_message() -> None:
    assert format_squash_message((ParsedCommit(A, message=b"one\n\nbody\n"),), "claude") == b"one\n\nbody\n"
