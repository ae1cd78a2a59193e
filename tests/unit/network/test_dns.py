"""Answers to DNS queries."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.network.dns import answer_query
from agent_dev.network.names import NameTable

A, PTR, TXT, AAAA, HTTPS = 1, 12, 16, 28, 65


def query(name: str, kind: int = A, flags: int = 0x100, questions: int = 1) -> bytes:
    labels = b"".join(bytes((len(part),)) + part for part in name.encode("latin-1").split(b".") if part)
    return struct.pack(">HHHHHH", 7, flags, questions, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def parsed(reply: bytes | None) -> tuple[int, int, bytes]:
    """Return response code, number of answers, and the last four bytes."""
    assert reply is not None
    number, flags, _, answers, _, _ = struct.unpack_from(">HHHHHH", reply)
    assert (number, flags & 0x8000) == (7, 0x8000)
    return flags & 15, answers, reply[-4:]


def test_a_name_has_its_stand_in_address_whatever_its_case() -> None:
    names = NameTable()
    code, answers, address = parsed(answer_query(query("API.example.org."), names))
    assert (code, answers) == (0, 1)
    assert parsed(answer_query(query("api.EXAMPLE.org"), names))[2] == address
    assert parsed(answer_query(query("other.example.org"), names))[2] != address


@pytest.mark.parametrize("kind", [AAAA, HTTPS, TXT, 15, 255])
def test_other_types_have_no_data(kind: int) -> None:
    assert parsed(answer_query(query("api.example.org", kind), NameTable()))[:2] == (0, 0)


def test_a_pointer_leads_back() -> None:
    names = NameTable()
    address = parsed(answer_query(query("api.example.org"), names))[2]
    back = ".".join(str(byte) for byte in reversed(address)) + ".in-addr.arpa"
    reply = answer_query(query(back, PTR), names)
    assert reply is not None
    assert reply.endswith(b"\3api\7example\3org\0")
    assert parsed(answer_query(query("1.2.3.4.in-addr.arpa", PTR), names))[:2] == (3, 0)
    assert parsed(answer_query(query("x.in-addr.arpa", PTR), names))[:2] == (3, 0)


@pytest.mark.parametrize("name", ["a b", "127.1", "2130706433", "", "x" * 63 + "." + "y" * 63 + "." + "z" * 63 + "." + "w" * 63])
def test_an_invalid_host_name_does_not_exist(name: str) -> None:
    names = NameTable()
    assert parsed(answer_query(query(name), names))[:2] == (3, 0)


def test_localhost_is_the_sandbox() -> None:
    assert parsed(answer_query(query("x.localhost"), NameTable()))[2] == bytes((127, 0, 0, 1))


def test_a_response_is_not_answered_and_a_malformed_query_is_refused() -> None:
    names = NameTable()
    assert answer_query(query("a.example.org", flags=0x8100), names) is None
    assert answer_query(b"short", names) is None
    assert parsed(answer_query(query("a.example.org", questions=2), names))[0] == 1
    assert parsed(answer_query(query("a.example.org", flags=0x2800), names))[0] == 4
    assert parsed(answer_query(query("")[:12] + b"\xc0\x0c\0\1\0\1", names))[0] == 1


@given(st.binary(max_size=600), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=6))
def test_no_query_raises(noise: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(query("api.example.org"))
    for at, value in changes:
        data[at % len(data)] = value
    for one in (noise, bytes(data), bytes(data) + noise):
        reply = answer_query(one, NameTable())
        assert reply is None or len(reply) >= 12
