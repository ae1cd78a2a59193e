"""Conversion of a blob to the bytes on disk: only where exactly one result is possible."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.git.conversion import Conversion, LineEndings, find_conversion, restore_line_endings, smudge

TEXTS = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\0"]), max_size=12).map(b"".join)


def into_git(data: bytes) -> bytes:
    """Return a file as git stores it after converting its line endings."""
    return data.replace(b"\r\n", b"\n")


def out_of_git(blob: bytes) -> bytes:
    """Return a blob as git checks it out with CRLF line endings."""
    return re.sub(rb"(?<!\r)\n", b"\r\n", blob)


@given(TEXTS)
def test_added_content_is_computed_exactly_or_not_at_all(data: bytes) -> None:
    assert restore_line_endings(into_git(data), len(data)) in (data, None)


@given(TEXTS)
def test_checked_out_content_is_computed_exactly_or_not_at_all(blob: bytes) -> None:
    assert restore_line_endings(blob, len(out_of_git(blob))) in (out_of_git(blob), None)


@given(TEXTS)
def test_unconverted_content_is_recognized(data: bytes) -> None:
    assert restore_line_endings(data, len(data)) == data


@pytest.mark.parametrize("data", [b"a\r\nb\r\n", b"a\r\nb", b"\r\n", b""])
def test_a_file_of_crlf_alone_is_recognized(data: bytes) -> None:
    assert restore_line_endings(into_git(data), len(data)) == data


@pytest.mark.parametrize("data", [b"a\r\nb\n", b"\n\r\n", b"a\r\r\nb\r\n"])
def test_a_file_of_mixed_line_endings_is_not_recognized(data: bytes) -> None:
    assert restore_line_endings(into_git(data), len(data)) is None


@pytest.mark.parametrize(
    ("attributes", "config", "how"),
    [
        ({}, {}, LineEndings.NONE),
        ({}, {"core.autocrlf": "true"}, LineEndings.AUTO),
        ({}, {"core.autocrlf": "input"}, LineEndings.NONE),
        ({}, {"core.eol": "crlf"}, LineEndings.NONE),
        ({"text": "set"}, {"core.eol": "crlf"}, LineEndings.CRLF),
        ({"text": "set"}, {"core.eol": "crlf", "core.autocrlf": "input"}, LineEndings.NONE),
        ({"text": "set"}, {"core.autocrlf": "true"}, LineEndings.CRLF),
        ({"text": "auto"}, {"core.autocrlf": "true"}, LineEndings.AUTO),
        ({"text": "unset"}, {"core.autocrlf": "true"}, LineEndings.NONE),
        ({"text": "unset", "eol": "crlf"}, {}, LineEndings.NONE),
        ({"eol": "crlf"}, {}, LineEndings.CRLF),
        ({"text": "auto", "eol": "crlf"}, {}, LineEndings.AUTO),
        ({"eol": "lf"}, {"core.autocrlf": "true"}, LineEndings.NONE),
        ({"crlf": "unset"}, {"core.autocrlf": "true"}, LineEndings.NONE),
    ],
)
def test_attributes_and_configuration_determine_line_endings(
    attributes: dict[str, str], config: dict[str, str], how: LineEndings
) -> None:
    assert find_conversion(attributes, config) == Conversion(how)


@pytest.mark.parametrize(
    ("blob", "how", "disk"),
    [
        (b"a\nb\n", LineEndings.CRLF, b"a\r\nb\r\n"),
        (b"a\r\nb\n", LineEndings.CRLF, b"a\r\nb\r\n"),
        (b"a\nb\n", LineEndings.AUTO, b"a\r\nb\r\n"),
        (b"a\r\nb\n", LineEndings.AUTO, b"a\r\nb\n"),
        (b"\0\n", LineEndings.AUTO, b"\0\n"),
        (b"a\n", LineEndings.NONE, b"a\n"),
    ],
)
def test_a_blob_is_converted_as_git_would(blob: bytes, how: LineEndings, disk: bytes) -> None:
    assert smudge(blob, Conversion(how)) == disk


DRIVER = {"filter.lfs.process": "git-lfs filter-process", "filter.rot.smudge": "rot13", "filter.must.required": "true"}


@pytest.mark.parametrize(
    ("attributes", "config", "how"),
    [
        ({"filter": "lfs"}, DRIVER, Conversion(filter_driver="lfs")),
        ({"filter": "rot"}, DRIVER, Conversion(filter_driver="rot")),
        ({"filter": "must"}, DRIVER, Conversion(filter_driver="must")),
        ({"filter": "unknown"}, DRIVER, Conversion()),
        ({"filter": "lfs"}, {"filter.lfs.clean": "git-lfs clean"}, Conversion()),
        ({"filter": "unset"}, DRIVER, Conversion()),
        ({"ident": "set"}, {}, Conversion(expands_ident=True)),
        ({"ident": "unset"}, {}, Conversion()),
        ({"working-tree-encoding": "UTF-16"}, {}, Conversion(encoding="UTF-16")),
        ({"working-tree-encoding": "UTF-8"}, {}, Conversion()),
    ],
)
def test_other_conversions_of_a_blob_are_reported(attributes: dict[str, str], config: dict[str, str], how: Conversion) -> None:
    assert find_conversion(attributes, config) == how


@pytest.mark.parametrize(
    "how",
    [
        Conversion(filter_driver="rot"),
        Conversion(filter_driver="lfs", expands_ident=True),
        Conversion(encoding="no-such"),
        Conversion(encoding="GB18030"),
    ],
)
def test_the_output_of_an_external_filter_is_not_guessed(how: Conversion) -> None:
    assert smudge(b"x\n", how) is None


def test_content_that_cannot_be_encoded_is_not_guessed() -> None:
    assert smudge("\u20ac".encode(), Conversion(encoding="ISO-8859-1")) is None
    assert smudge(b"\xff", Conversion(encoding="UTF-16")) is None
    assert smudge(b"", Conversion(encoding="UTF-16")) == b""
