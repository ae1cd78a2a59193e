"""Describe where an imported session comes from: its signer, and the host that made the bundle by its own account."""

from agent_dev.sanitize import visible
from agent_dev.session.store import Record


def describe_origin(record: Record) -> str:
    """Return e.g. `unsigned, from build1`; "" for a session that ran here."""
    imported = record.get("imported")
    if not imported:
        return ""
    signer = f"signed by {visible(str(imported['signer']))}" if imported["signer"] else "unsigned"
    return f"{signer}, from {visible(str(imported['host']))}"


def origin_as_json(record: Record) -> dict[str, object] | None:
    """Return the same as JSON data; None for a session that ran here."""
    imported = record.get("imported")
    if not imported:
        return None
    return {"host": imported["host"], "signer": imported["signer"] or None, "left_out": list(imported["left_out"])}
