"""Parse JSON that an agent wrote."""

import json


def parse_json(data: bytes) -> object | None:
    """Parse JSON with numbers as text; None if invalid or if a key is repeated, which parsers read differently."""
    try:
        document: object = json.loads(
            data.decode("utf-8-sig"), parse_int=str, parse_float=str, object_pairs_hook=_without_repeated_keys
        )
    except (ValueError, RecursionError):
        return None
    return document


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found
