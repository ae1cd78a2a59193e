"""JSON without the `json` module: the output and the accepted input are the same as with `json`."""

import itertools
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_dev.fs import fast_json

TEXTS = st.text(st.characters(exclude_categories=())).filter(lambda text: not _has_pair(text))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def _has_pair(text: str) -> bool:
    """Return whether a text contains a surrogate pair, which every JSON reader decodes as one character."""
    return any("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in itertools.pairwise(text))


@given(VALUES)
def test_json_round_trips(value: object) -> None:
    assert fast_json.loads(fast_json.dumps(value)) == value


@given(VALUES)
def test_the_output_equals_that_of_the_json_module(value: object) -> None:
    assert fast_json.dumps(value) == json.dumps(value, separators=(",", ":")).encode()


def test_names_that_are_not_utf_8_survive() -> None:
    name = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")

    assert fast_json.loads(fast_json.dumps([name])) == [name]


def test_a_tuple_is_a_list() -> None:
    assert fast_json.dumps({"a": (1, (2,))}) == b'{"a":[1,[2]]}'


def test_whitespace_around_a_value_is_skipped() -> None:
    assert fast_json.loads(b' \n\t{"a": [1, 2.5]}\r\n') == {"a": [1, 2.5]}


BROKEN = (b"", b" ", b"{", b'{"a":1', b"[1,]", b"1 2", b"nul", b'"\n"', b"\xff", b"NaN", b"-Infinity", b"[" * 100_000)


@pytest.mark.parametrize("data", BROKEN)
def test_invalid_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        fast_json.loads(data)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_an_invalid_json_number_is_a_value_error(value: float) -> None:
    with pytest.raises(ValueError, match=r".*"):
        fast_json.dumps({"a": value})


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), {"a": b""}])
def test_an_unsupported_type_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError):
        fast_json.dumps(value)


def test_a_circular_value_is_a_value_error_and_does_not_affect_the_next() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(ValueError, match="contains itself"):
        fast_json.dumps(endless)

    assert fast_json.dumps([[], []]) == b"[[],[]]"


@pytest.fixture
def without_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a Python without the C module `_json`."""
    monkeypatch.setitem(sys.modules, "_json", None)
    monkeypatch.setattr(fast_json, "_scan", fast_json._make_scan())
    monkeypatch.setattr(fast_json, "_encode", fast_json._make_encode())


def test_without_the_c_module_the_output_is_the_same(without_c: None) -> None:
    assert fast_json.dumps({"a": (1, None), "b": "\udcff"}) == b'{"a":[1,null],"b":"\\udcff"}'
    assert fast_json.loads(b' {"a":[1,null]} ') == {"a": [1, None]}


@pytest.mark.parametrize("data", BROKEN)
def test_without_the_c_module_the_same_input_is_refused(data: bytes, without_c: None) -> None:
    with pytest.raises(ValueError, match=r".*"):
        fast_json.loads(data)


def test_without_the_c_module_the_same_values_are_refused(without_c: None) -> None:
    with pytest.raises(ValueError, match=r".*"):
        fast_json.dumps(float("nan"))
    with pytest.raises(TypeError):
        fast_json.dumps({1, 2})


def test_a_damaged_text_is_a_value_error_without_the_json_module() -> None:
    code = "from agent_dev.fs import fast_json\ntry:\n    fast_json.loads(b'[1 2]')\nexcept ValueError:\n    print('refused')"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("refused\n", "")
