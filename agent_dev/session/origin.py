"""Describe the origin of an imported session: its signer, and the host that made the bundle, by its own account."""

from agent_dev.sanitize import visible
from agent_dev.session.store import Record

UNKNOWN_KEY = "an unknown key"  # the signer of a bundle whose key is not among git's allowed signers


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
    return {"host": imported["host"], **signer_as_json(str(imported["signer"])), "left_out": list(imported["left_out"])}


def signer_as_json(signer: str) -> dict[str, object]:
    """Return a signer as JSON data: a signature by an unknown key has no signer."""
    return {"signer": signer if signer not in ("", UNKNOWN_KEY) else None, "signed": bool(signer)}
