"""Check the JSON documents that tests receive from agent-dev against their schemas."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.harness.reference import json_schemas, schema_types

_BY_LINE = ("backup", "watch")  # subcommands that print a document per line


def check_document(words: Sequence[str | Path], stdout: str) -> None:
    """Check what `agent-dev WORDS` printed: every key and value is one that its schema declares."""
    before = words[: words.index("--")] if "--" in words else words
    name = json_schemas.schema_name([str(word) for word in before])
    if "--json" not in before or not name or not stdout.lstrip().startswith("{"):
        return
    for text in stdout.splitlines() if name in _BY_LINE else [stdout]:
        error = next(_validator(name).iter_errors(json.loads(text)), None)
        assert error is None, f"docs/json/{name}.schema.json: {error.json_path}: {error.message}"


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator  # most tests need none

    return Draft202012Validator(schema_types.strict(json_schemas.SCHEMAS[name]))
