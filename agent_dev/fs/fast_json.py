"""JSON by CPython's C scanner and encoder: 0.4 ms to import on the launch path, where `json` (with `re`) takes 6.5 ms.

`_json` is an internal module of CPython, so anything missing or different in it falls back to `json`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAKE_FAILURES = (ImportError, AttributeError, TypeError)


class _Context:
    """The attributes that the C scanner reads from a decoder: plain values, no hooks."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> object:
        raise ValueError(f"{name} is not valid in JSON")


def loads(data: bytes) -> object:
    """Return the value of a JSON text in UTF-8. Raises ValueError for anything else."""
    text = data.decode("utf-8").strip(" \t\n\r")
    value, end = scan(text, 0)
    if end != len(text):
        raise ValueError(f"more than one JSON value: the first ends at character {end}")
    return value


def scan(text: str, at: int) -> "tuple[object, int]":
    """Return the value that starts at a position of a JSON text, and its end. Raises ValueError."""
    try:
        return _scan(text, at)
    except (StopIteration, SystemError):  # the C scanner cannot raise JSONDecodeError while `json.decoder` is not imported
        raise ValueError("no JSON value") from None
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def dumps(value: object) -> bytes:
    """Return a value as compact JSON, ASCII only. Raises TypeError for a type unknown to JSON, ValueError for NaN.

    Lone surrogates (os.fsdecode's for invalid bytes) survive `loads`.
    """
    try:
        return "".join(_encode(value, 0)).encode("ascii")
    except RecursionError:
        raise ValueError("nested too deeply for JSON, or contains itself") from None


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


def _make_scan() -> "Callable[[str, int], tuple[object, int]]":
    try:
        from _json import make_scanner  # deferred: may be missing

        return make_scanner(_Context)  # type: ignore[arg-type]  # any object with these attributes
    except _MAKE_FAILURES:
        import json  # deferred: 6 ms

        decoder: Any = json.JSONDecoder(parse_constant=_Context.parse_constant)
        return decoder.scan_once  # type: ignore[no-any-return]


def _make_encode() -> "Callable[[object, int], tuple[str, ...]]":
    try:
        from _json import encode_basestring_ascii, make_encoder  # deferred: may be missing

        return make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)
    except _MAKE_FAILURES:
        import json  # deferred: 6 ms

        encoder = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":"), default=_refuse)
        return lambda value, _level: (encoder.encode(value),)


_scan = _make_scan()
_encode = _make_encode()
