"""JSON on CPython's C scanner and encoder: 0.4 ms to import on the launch path, where `json` (and its `re`) is 6.5 ms.

`_json` is CPython's own and no contract, so whatever is missing or different there falls back to `json`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAKE_FAILURES = (ImportError, AttributeError, TypeError)


class _Context:
    """What the C scanner asks of a decoder: plain values, nothing hooked."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name: str) -> object:
        raise ValueError(f"{name} is no JSON")


def loads(data: bytes) -> object:
    """Return the value of a JSON text in UTF-8. Raises ValueError for anything else."""
    text = data.decode("utf-8").strip(" \t\n\r")
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("no JSON value") from None
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    if end != len(text):
        raise ValueError(f"more than one JSON value: the first ends at character {end}")
    return value


def dumps(value: object) -> bytes:
    """Return a value as compact JSON, ASCII only. Raises TypeError for what JSON has no word for, ValueError for NaN.

    Lone surrogates (os.fsdecode's stand-ins for bytes) survive `loads`.
    """
    try:
        return "".join(_encode(value, 0)).encode("ascii")
    except RecursionError:
        raise ValueError("nested too deeply for JSON, or in itself") from None


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} has no word in JSON")


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
