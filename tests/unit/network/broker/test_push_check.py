"""Which pushes are allowed."""

import gzip

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from agent_dev.network.broker.push_check import PushCheck, PushRefused, report
from tests.harness.scale import printed_seed

ZERO, ONE = b"0" * 40, b"1" * 40
CAPABILITIES = b"\0 report-status side-band-64k object-format=sha1"


def packet(text: bytes) -> bytes:
    return b"%04x" % (len(text) + 4) + text


def push(*refs: bytes, new: bytes = ONE) -> bytes:
    first, *others = (ZERO + b" " + new + b" " + ref for ref in refs)
    return b"".join(map(packet, (first + CAPABILITIES, *others))) + b"0000PACK..."


def checked(data: bytes, size: int = 1 << 20, *, patterns: tuple[str, ...] = ("agent/*",), is_gzip: bool = False) -> bool:
    check = PushCheck(patterns, is_gzip=is_gzip)
    return any(check.feed(data[at : at + size]) for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 3, 50, 1 << 20])
def test_allowed_branches_pass_however_the_push_is_cut(size: int) -> None:
    data = push(b"refs/heads/agent/one", b"refs/heads/agent/two/three")
    assert checked(data, size)
    assert checked(gzip.compress(data), size, is_gzip=True)
    assert not checked(data[:100], size)


def test_long_ids_shallow_lines_and_no_command_pass() -> None:
    long = packet(b"0" * 64 + b" " + b"1" * 64 + b" refs/heads/agent/x" + CAPABILITIES)
    assert checked(packet(b"shallow " + ONE) + long + b"0000")
    assert checked(b"0000")
    assert checked(push(b"refs/tags/v1"), patterns=("refs/tags/*",))


@pytest.mark.parametrize(
    "data",
    [
        push(b"refs/heads/main"),
        push(b"refs/heads/agent/one", b"refs/heads/main"),
        push(b"refs/tags/agent/v1"),
        push(b"refs/heads/agent/one", new=ZERO),
        push(b"refs/heads/agent/../main"),
        push(b"refs/heads/agent/\xff"),
        push(b"HEAD"),
        push(b"refs/heads/agent/one main"),
        packet(b"push-cert\0 atomic") + b"0000",
        packet(ZERO + b" " + ONE) + b"0000",
        packet(b"x"),
        b"0001",
        b"0004",
        b"000X" + ZERO,
        b"FFFF",
        b"-001",
        packet(ZERO + b" " + ONE + b" refs/heads/agent/x" + CAPABILITIES) * 2 + b"0000",
        b"".join(packet(b"shallow " + ONE) for _ in range(1 << 15)),
    ],
)
def test_another_push_is_refused(data: bytes) -> None:
    with pytest.raises(PushRefused):
        checked(data, 1000)


def test_gzip_that_grows_without_end_or_is_none_is_refused() -> None:
    with pytest.raises(PushRefused):
        checked(gzip.compress(packet(b"shallow " + ONE) * 100_000), is_gzip=True)
    with pytest.raises(PushRefused, match="gzip"):
        checked(push(b"refs/heads/agent/one"), is_gzip=True)


@seed(printed_seed())
@given(
    st.one_of(st.binary(max_size=300), st.lists(st.binary(max_size=80).map(packet), max_size=4).map(b"".join)), st.integers(1, 40)
)
def test_arbitrary_bytes_are_never_a_push_of_an_allowed_branch(data: bytes, size: int) -> None:
    check = PushCheck(("agent/*",), is_gzip=False)
    try:
        is_read = any(check.feed(data[at : at + size]) for at in range(0, len(data), size))
    except PushRefused:
        return
    assert not is_read or data.startswith((b"0000", b"00")), "only an empty list of commands is read"
    assert not check._commands


def test_git_gets_a_report_with_the_reason_for_each_ref() -> None:
    with pytest.raises(PushRefused) as caught:
        checked(push(b"refs/heads/main", b"refs/heads/x"))
    printed = report(caught.value, "a.org")
    assert printed[4:5] == b"\1"
    assert b"unpack ok" in printed
    assert b"ng refs/heads/main agent-dev: a.org: a push to refs/heads/main is not allowed, only to agent/*" in printed
    assert b"ng refs/heads/x " in printed
