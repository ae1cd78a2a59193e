"""Describe the origin of a session: the words that started it; the signer and host of an imported one, by its own account."""

import os

from agent_dev.sanitize import visible
from agent_dev.session.store import Record

UNKNOWN_KEY = "an unknown key"  # the signer of a bundle whose key is not among git's allowed signers
_SHELL = ("/bin/sh", "-c")  # runs a line of a list of tasks


def typed_words(record: Record) -> tuple[str, ...]:
    """Return the words that started a session, and its prompt; its command if another one was run in it since.

    The command of an agent also has the arguments of its profile and the instructions, which are 20 lines.
    """
    command, words = tuple(map(str, record["command"])), tuple(map(str, record.get("words", ())))
    if not words or record.get("is_command") or not command or os.path.basename(command[0]) != os.path.basename(words[0]):
        return _words_of_line(command)
    prompt = str(record["options"].get("prompt") or "")
    return (*words, prompt) if prompt else words


def _words_of_line(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a simple command that a list of tasks has as a line for a shell; any other command as it is."""
    if len(command) != len(_SHELL) + 1 or command[: len(_SHELL)] != _SHELL:
        return command
    import shlex  # only sessions of such lists need it

    try:
        words = tuple(shlex.split(command[-1]))
    except ValueError:
        return command  # an unclosed quote
    return words if words and shlex.join(words) == command[-1] else command


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
