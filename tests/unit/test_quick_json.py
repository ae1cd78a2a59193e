"""JSON without the `json` module says the same as `json`."""

import itertools
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs import fast_json as quick_json

TEXTS = st.text(st.characters(exclude_categories=())).filter(lambda text: not _has_pair(text))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def _has_pair(text: str) -> bool:
    """A high and a low surrogate side by side are one character to every reader of JSON."""
    return any("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in itertools.pairwise(text))


@given(VALUES)
def test_what_is_dumped_is_loaded_again(value: object) -> None:
    assert quick_json.loads(quick_json.dumps(value)) == value


@given(VALUES)
def test_the_bytes_are_those_of_json(value: object) -> None:
    assert quick_json.dumps(value) == json.dumps(value, separators=(",", ":")).encode()


def test_names_that_are_not_utf_8_survive() -> None:
    name = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")

    assert quick_json.loads(quick_json.dumps([name])) == [name]


def test_a_tuple_is_a_list() -> None:
    assert quick_json.dumps({"a": (1, (2,))}) == b'{"a":[1,[2]]}'


def test_space_around_a_value_is_passed_over() -> None:
    assert quick_json.loads(b' \n\t{"a": [1, 2.5]}\r\n') == {"a": [1, 2.5]}


BROKEN = (b"", b" ", b"{", b'{"a":1', b"[1,]", b"1 2", b"nul", b'"\n"', b"\xff", b"NaN", b"-Infinity", b"[" * 100_000)


@pytest.mark.parametrize("data", BROKEN)
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        quick_json.loads(data)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_in_json_is_a_value_error(value: float) -> None:
    with pytest.raises(ValueError, match=r".*"):
        quick_json.dumps({"a": value})


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), {"a": b""}])
def test_what_json_has_no_word_for_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError):
        quick_json.dumps(value)


def test_a_value_within_itself_is_a_value_error_and_does_no_harm_to_the_next() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(ValueError, match="in itself"):
        quick_json.dumps(endless)

    assert quick_json.dumps([[], []]) == b"[[],[]]"


@pytest.fixture
def without_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that has no `_json`."""
    monkeypatch.setitem(sys.modules, "_json", None)
    monkeypatch.setattr(quick_json, "_scan", quick_json._make_scan())
    monkeypatch.setattr(quick_json, "_encode", quick_json._make_encode())


def test_without_the_c_module_the_bytes_are_the_same(without_c: None) -> None:
    assert quick_json.dumps({"a": (1, None), "b": "\udcff"}) == b'{"a":[1,null],"b":"\\udcff"}'
    assert quick_json.loads(b' {"a":[1,null]} ') == {"a": [1, None]}


@pytest.mark.parametrize("data", BROKEN)
def test_without_the_c_module_the_same_is_refused(data: bytes, without_c: None) -> None:
    with pytest.raises(ValueError, match=r".*"):
        quick_json.loads(data)


def test_without_the_c_module_the_same_is_not_dumped(without_c: None) -> None:
    with pytest.raises(ValueError, match=r".*"):
        quick_json.dumps(float("nan"))
    with pytest.raises(TypeError):
        quick_json.dumps({1, 2})
