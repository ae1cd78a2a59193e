"""Which commits are meant, what their messages become, and what a blob is on the disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.commits.targets import Branch, Picks, chosen, combined, kept_name
from agent_dev.errors import UsageError
from agent_dev.git.commit_message import squashed, with_trailers
from agent_dev.git.conversion import Conversion, conversion, smudged
from agent_dev.git.formats.commit_format import Told

A, B, C = "a" * 40, "b" * 40, "abc" + "c" * 37
BEFORE = {"HEAD": "ref: refs/heads/main", "refs/heads/main": A}
AFTER = {"HEAD": "ref: refs/heads/x", "refs/heads/main": B, "refs/heads/x": C, "refs/tags/v1": B}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("",), Branch("refs/heads/main", B, A)),
        (("main",), Branch("refs/heads/main", B, A)),
        (("x",), Branch("refs/heads/x", C, "")),
        (("refs/heads/x",), Branch("refs/heads/x", C, "")),
        (("v1",), Branch("refs/tags/v1", B, "")),
        (("bbbb",), Picks((B,))),
        ((C,), Picks((C,))),
        (("bbbb", "x"), Picks((B, C))),
        (("main..x",), Picks(((B, C),))),
        (("bbbb..",), Picks(((B, C),))),
        ((f"{'d' * 40}..x",), Picks((("d" * 40, C),))),
    ],
)
def test_words_mean_branches_commits_and_ranges(words: tuple[str, ...], meant: Branch | Picks) -> None:
    assert chosen(words, BEFORE, AFTER, [B, C]) == meant


def test_a_session_that_began_on_no_branch_means_its_head() -> None:
    assert chosen(("",), {"HEAD": A}, {"HEAD": B}, [B]) == Branch("HEAD", B, A)


@pytest.mark.parametrize("word", ["a", "nothing", "--all", "-x", "dddd", "dddd..x", "../x", "a" * 41])
def test_what_the_session_does_not_have_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        chosen((word,), BEFORE, AFTER, [B, C])


def test_a_word_for_several_commits_is_refused() -> None:
    with pytest.raises(UsageError, match="several"):
        chosen(("abcd",), BEFORE, AFTER, ["abcd" + "e" * 36, "abcd" + "f" * 36])


def test_refs_are_kept_below_the_sessions_name() -> None:
    assert kept_name("261121-1", "refs/heads/a/b") == "refs/agent-dev/261121-1/heads/a/b"
    assert kept_name("261121-1", "HEAD") == "refs/agent-dev/261121-1/HEAD"


@pytest.mark.parametrize(
    ("before", "mine", "theirs", "result"),
    [
        (b"a\n", b"a\n", b"b\n", b"b\n"),
        (b"a\n", b"a\nmine\n", b"a\nmine\nagent\n", b"a\nmine\nagent\n"),
        (b"1\n2\n3\n", b"0\n2\n3\n", b"1\n2\n4\n", b"0\n2\n4\n"),
        (b"a\n", b"mine\n", b"agent\n", None),
        (b"\0a", b"\0mine", b"\0agent", None),
        (b"\0a", b"\0a", b"\0agent", b"\0agent"),
    ],
)
def test_a_file_edited_on_both_sides_is_both_or_a_conflict(
    before: bytes, mine: bytes, theirs: bytes, result: bytes | None
) -> None:
    assert combined(before, mine, theirs) == result


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
    assert with_trailers(message, TRAILERS) == result


@given(st.binary())
def test_trailers_are_added_once(message: bytes) -> None:
    once = with_trailers(message, TRAILERS)

    assert with_trailers(once, TRAILERS) == once


def test_a_squash_of_one_keeps_its_words() -> None:
    assert squashed((Told(A, message=b"one\n\nbody\n"),), "claude") == b"one\n\nbody\n"


@pytest.mark.parametrize(
    ("attributes", "config", "how"),
    [
        ({}, {}, Conversion.NONE),
        ({}, {"core.autocrlf": "true"}, Conversion.AUTO),
        ({}, {"core.autocrlf": "input"}, Conversion.NONE),
        ({}, {"core.eol": "crlf"}, Conversion.NONE),
        ({"text": "set"}, {"core.eol": "crlf"}, Conversion.CRLF),
        ({"text": "set"}, {"core.eol": "crlf", "core.autocrlf": "input"}, Conversion.NONE),
        ({"text": "set"}, {"core.autocrlf": "true"}, Conversion.CRLF),
        ({"text": "auto"}, {"core.autocrlf": "true"}, Conversion.AUTO),
        ({"text": "unset"}, {"core.autocrlf": "true"}, Conversion.NONE),
        ({"text": "unset", "eol": "crlf"}, {}, Conversion.NONE),
        ({"eol": "crlf"}, {}, Conversion.CRLF),
        ({"text": "auto", "eol": "crlf"}, {}, Conversion.AUTO),
        ({"eol": "lf"}, {"core.autocrlf": "true"}, Conversion.NONE),
        ({"crlf": "unset"}, {"core.autocrlf": "true"}, Conversion.NONE),
        ({"filter": "lfs"}, {}, Conversion.PROGRAM),
        ({"filter": "unset"}, {}, Conversion.NONE),
        ({"ident": "set"}, {}, Conversion.PROGRAM),
        ({"working-tree-encoding": "UTF-16"}, {}, Conversion.PROGRAM),
    ],
)
def test_what_a_blob_becomes_is_told_by_attributes_and_configuration(
    attributes: dict[str, str], config: dict[str, str], how: Conversion
) -> None:
    assert conversion(attributes, config) is how


@pytest.mark.parametrize(
    ("blob", "how", "disk"),
    [
        (b"a\nb\n", Conversion.CRLF, b"a\r\nb\r\n"),
        (b"a\r\nb\n", Conversion.CRLF, b"a\r\nb\r\n"),
        (b"a\nb\n", Conversion.AUTO, b"a\r\nb\r\n"),
        (b"a\r\nb\n", Conversion.AUTO, b"a\r\nb\n"),
        (b"\0\n", Conversion.AUTO, b"\0\n"),
        (b"a\n", Conversion.NONE, b"a\n"),
        (b"a\n", Conversion.PROGRAM, b"a\n"),
    ],
)
def test_a_blob_becomes_what_git_would_write(blob: bytes, how: Conversion, disk: bytes) -> None:
    assert smudged(blob, how) == disk
