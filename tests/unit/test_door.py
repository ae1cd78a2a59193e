"""What may be said at the door of a session, and whose turn it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.inside.control import protocol as door
from agent_dev.inside.control.protocol import Open, Request

OUTER, INNER = Open(1, 100, 7), Open(2, 200, 9)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"begin", Request("begin")),
        (b"begin pip install x", Request("begin", "pip install x")),
        (b"commit", Request("commit")),
        (b"commit /home/shop/src", Request("commit", paths=("/home/shop/src",))),
        (b"commit /a%20b%25 /c%C3%B6%FF", Request("commit", paths=("/a b%", "/c\xf6\udcff"))),
        (b"rollback", Request("rollback")),
        (b"rollback 12", Request("rollback", number=12)),
        (b"checkpoint", Request("checkpoint")),
        ("checkpoint vor dem Größten".encode(), Request("checkpoint", "vor dem Größten")),
    ],
)
def test_the_four_words_are_understood(line: bytes, wanted: Request) -> None:
    assert door.parse(line) == wanted


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b" ", b"begin ", b" begin", b"Begin", b"begin\r", b"begin a\tb", b"begin a\x1b[2J", b"begin \xff", b"begin\0"),
        *(
            b"commit 1",
            b"commit a/b",
            b"commit /a/../b",
            b"commit /a//b",
            b"commit /a/.",
            b"commit /",
            b"commit /a%00",
            b"commit /a%",
        ),
        *(b"commit /a%4", b"commit /a%+4", b"commit /a  /b", b"commit /a ", b"commit /%2e%2e/b", "commit /ö".encode()),
        *(b"rollback -1", b"rollback 0", b"rollback 1 2", b"rollback 1234567890", b"rollback x", b"rollback \xb2"),
        *("rollback ٣".encode(), "begin a\u202eb".encode(), b"merge", b"run ls", b"checkpoints", b"{}"),
    ],
)
def test_nothing_else_is(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        door.parse(line)


@given(st.binary(max_size=64))
def test_any_bytes_are_one_of_the_four_words_or_refused(line: bytes) -> None:
    try:
        request = door.parse(line)
    except ValueError:
        return
    assert request.word in ("begin", "commit", "rollback", "checkpoint")
    assert line.startswith(request.word.encode())


@pytest.mark.parametrize(
    ("opened", "client", "ancestry", "wanted"),
    [
        ((), 1, (), True),
        ((OUTER,), 2, (200, 100, 50), True),  # within it
        ((OUTER,), 2, (200, 50), False),  # beside it
        ((OUTER,), 1, (), True),  # its own
        ((OUTER, INNER), 3, (300, 100), False),  # within the outer one, beside the inner
        ((OUTER, INNER), 3, (300, 200, 100), True),
    ],
)
def test_it_is_the_turn_of_who_lies_within_the_innermost(
    opened: door.Opened, client: int, ancestry: tuple[int, ...], *, wanted: bool
) -> None:
    assert door.has_turn(opened, client, ancestry) is wanted


def test_what_began_within_one_that_is_rolled_back_is_void() -> None:
    assert door.rolled_back((OUTER, INNER), 1) == (INNER.but(is_void=True),)
    assert door.rolled_back((OUTER, INNER), 2) == (OUTER,)
    assert door.rolled_back((OUTER,), 9) == (OUTER,)


def test_one_that_is_committed_leaves_what_began_within_it_open() -> None:
    assert door.committed((OUTER, INNER), 1) == (INNER,)
    assert door.committed((OUTER, INNER), 2) == (OUTER,)


def test_all_that_is_open_is_undone_at_the_outermost_that_still_counts() -> None:
    assert door.outermost((OUTER, INNER)) == 7
    assert door.outermost((OUTER.but(is_void=True), INNER)) == 9
    assert door.outermost(()) == 0
