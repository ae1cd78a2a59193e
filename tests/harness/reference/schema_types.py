"""The parts of a JSON Schema: simple types, lists, objects, whole documents."""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
ANY: Schema = {}
_OPTIONAL = "?"  # the end of a key that may be missing


def nullable(schema: Schema) -> Schema:
    """Return a schema that also permits null."""
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def one_of(*words: str) -> Schema:
    """Return the schema of a closed set of words."""
    return {"enum": list(words)}


def mapping(**keys: Schema) -> Schema:
    """Return the schema of an object whose keys are all required."""
    return entries(keys)


def entries(keys: dict[str, Schema]) -> Schema:
    """Return the schema of an object; a key that ends with `?` may be missing."""
    properties = {key.removesuffix(_OPTIONAL): schema for key, schema in keys.items()}
    return {"type": "object", "properties": properties, "required": [key for key in keys if not key.endswith(_OPTIONAL)]}


def document(**keys: Schema) -> Schema:
    """Return the schema of a whole document."""
    return entries({"version": {"const": 1}, **keys})


def strict(schema: Any) -> Any:
    """Return a schema that rejects keys that it does not declare."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if schema.get("type") == "object" else {}
    return {key: strict(value) for key, value in schema.items()} | closed
