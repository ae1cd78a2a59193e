"""Settings files as documents: JSON, TOML and YAML, parsed and written."""

import hashlib
import json
from typing import Any

_LARGEST = 100_000  # values: the aliases of a small YAML file can stand for millions
FORMATS = (".json", ".toml", ".yaml", ".yml")


class NotADocument(ValueError):
    """The bytes are no mapping in their format."""


def is_document(path: str) -> bool:
    """Return whether a file's name is that of a document."""
    return path.endswith(FORMATS)


def parse(path: str, data: bytes) -> dict[str, Any]:
    """Return a document. Raises NotADocument."""
    try:
        found = _parse(path, data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise NotADocument(path) from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise NotADocument(path)
    document: dict[str, Any] = found
    _check_size(document)
    return document


def _parse(path: str, text: str) -> Any:
    if path.endswith(".json"):
        return json.loads(text) if text.strip() else {}
    if path.endswith(".toml"):
        import tomllib  # off the launch path

        return tomllib.loads(text)
    import yaml  # off the launch path

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise NotADocument(str(error)) from None


def _check_size(document: dict[str, Any]) -> None:
    """Raise NotADocument for a document with too many values, too deep, or one that contains itself."""
    left: list[tuple[Any, int]] = [(document, 0)]
    count = 0
    while left:
        value, depth = left.pop()
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count += len(parts)
        if count > _LARGEST or depth > 50:
            raise NotADocument("too large")
        left += [(part, depth + 1) for part in parts]


def write(path: str, document: dict[str, Any]) -> bytes:
    """Return a document as bytes; comments are not kept."""
    if path.endswith(".json"):
        return json.dumps(document, indent=2, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass") + b"\n"
    if path.endswith(".toml"):
        return "".join(f"{line}\n" for line in _toml_lines(document, "")).encode()
    import yaml  # off the launch path

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()


def digest(document: dict[str, Any]) -> str:
    """Return a digest of a document, regardless of its layout and the order of its keys."""
    text = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _toml_lines(table: dict[str, Any], name: str) -> list[str]:
    lines = [f"[{name}]"] if name else []
    lines += [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in table.items() if not isinstance(value, dict)]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += ["", *_toml_lines(value, f"{name}.{_toml_key(key)}" if name else _toml_key(key))]
    return lines


def _toml_key(key: str) -> str:
    return key if key and all(char.isascii() and (char.isalnum() or char in "-_") for char in key) else _toml_text(key)


def _toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _toml_text(value)
        case list():
            return f"[{', '.join(map(_toml_value, value))}]"
        case dict():
            return f"{{{', '.join(f'{_toml_key(key)} = {_toml_value(part)}' for key, part in value.items())}}}"
        case int() | float():
            return str(value)  # inf and nan are written as in TOML
        case _:
            return str(value.isoformat())  # dates and times
