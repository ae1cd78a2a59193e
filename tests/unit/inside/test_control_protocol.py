"""The requests that the control socket accepts, and the clients that may proceed during a transaction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.control import protocol
from agent_dev.control.protocol import ControlRequest, OpenTransaction

OUTER, INNER = OpenTransaction(1, 100, 7), OpenTransaction(2, 200, 9)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"begin", ControlRequest("begin")),
        (b"begin pip install x", ControlRequest("begin", "pip install x")),
        (b"commit", ControlRequest("commit")),
        (b"commit /home/shop/src", ControlRequest("commit", paths=("/home/shop/src",))),
        (b"commit /a%20b%25 /c%C3%B6%FF", ControlRequest("commit", paths=("/a b%", "/c\xf6\udcff"))),
        (b"rollback", ControlRequest("rollback")),
        (b"rollback 12", ControlRequest("rollback", number=12)),
        (b"checkpoint", ControlRequest("checkpoint")),
        ("checkpoint vor dem Größten".encode(), ControlRequest("checkpoint", "vor dem Größten")),
    ],
)
def test_the_four_requests_are_parsed(line: bytes, wanted: ControlRequest) -> None:
    assert protocol.parse_request(line) == wanted


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
def test_other_requests_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        protocol.parse_request(line)


@given(st.binary(max_size=64))
def test_any_bytes_are_one_of_the_four_requests_or_refused(line: bytes) -> None:
    try:
        request = protocol.parse_request(line)
    except ValueError:
        return
    assert request.verb in ("begin", "commit", "rollback", "checkpoint")
    assert line.startswith(request.verb.encode())


@pytest.mark.parametrize(
    ("opened", "client", "ancestry", "wanted"),
    [
        ((), 1, (), True),
        ((OUTER,), 2, (200, 100, 50), True),  # within the transaction
        ((OUTER,), 2, (200, 50), False),  # outside of it
        ((OUTER,), 1, (), True),  # the transaction's own client
        ((OUTER, INNER), 3, (300, 100), False),  # within the outer transaction, outside of the inner one
        ((OUTER, INNER), 3, (300, 200, 100), True),
    ],
)
def test_only_a_client_within_the_innermost_transaction_may_proceed(
    opened: protocol.OpenTransactions, client: int, ancestry: tuple[int, ...], *, wanted: bool
) -> None:
    assert protocol.may_proceed(opened, client, ancestry) is wanted


def test_a_rollback_voids_nested_transactions() -> None:
    assert protocol.after_rollback((OUTER, INNER), 1) == (INNER.replace(is_void=True),)
    assert protocol.after_rollback((OUTER, INNER), 2) == (OUTER,)
    assert protocol.after_rollback((OUTER,), 9) == (OUTER,)


def test_a_commit_leaves_nested_transactions_open() -> None:
    assert protocol.after_commit((OUTER, INNER), 1) == (INNER,)
    assert protocol.after_commit((OUTER, INNER), 2) == (OUTER,)


def test_all_open_transactions_are_undone_at_the_outermost_valid_one() -> None:
    assert protocol.outermost_checkpoint((OUTER, INNER)) == 7
    assert protocol.outermost_checkpoint((OUTER.replace(is_void=True), INNER)) == 9
    assert protocol.outermost_checkpoint(()) == 0
