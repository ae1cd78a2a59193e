"""Git's log and refs are parsed as bytes, because an agent wrote everything in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.git.formats.commit_format import Commit, parse_log
from agent_dev.git.formats.ref_format import parse_packed_refs, parse_ref

OID, OID_256 = "ab" * 20, "cd" * 32


def test_each_commit_is_an_id_and_a_subject() -> None:
    assert parse_log(f"{OID}\nfirst\0{OID_256}\nsecond".encode()) == (Commit(OID, "first"), Commit(OID_256, "second"))


def test_empty_output_is_no_commit() -> None:
    assert parse_log(b"") == parse_log(b"\0") == ()


def test_a_subject_that_is_not_utf_8_survives() -> None:
    (commit,) = parse_log(OID.encode() + b"\n\xff\x1b[2J")

    assert commit.subject.encode("utf-8", "surrogateescape") == b"\xff\x1b[2J"


@given(st.binary())
def test_any_output_is_parsed(data: bytes) -> None:
    parse_log(data)
    parse_packed_refs(data)
    parse_ref(data)


@pytest.mark.parametrize("oid", [OID, OID_256])
def test_a_ref_is_an_object_id(oid: str) -> None:
    assert parse_ref(f"{oid}\n".encode()) == oid


@pytest.mark.parametrize(
    "data",
    [b"", b"ref: refs/heads/main\n", OID[:-1].encode(), OID.upper().encode(), b"--output=x" + b"a" * 30, b"g" * 40, b"\xff" * 40],
)
def test_anything_else_is_no_ref(data: bytes) -> None:
    assert parse_ref(data) is None


def test_packed_refs_are_parsed_without_peeled_entries() -> None:
    data = f"# pack-refs with: peeled fully-peeled sorted \n{OID} refs/heads/main\n{OID} refs/tags/v1\n^{'0' * 40}\n".encode()

    assert parse_packed_refs(data) == {"refs/heads/main": OID, "refs/tags/v1": OID}
