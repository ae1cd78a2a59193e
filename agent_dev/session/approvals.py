"""Commands that wait for the user's answer: a file each in the session's folder, and the answer beside it."""

import json
import os
from typing import Any

_FOLDER = "asks"


def put(folder: str, number: int, row: dict[str, Any]) -> None:
    """Write a question down."""
    os.makedirs(f"{folder}/{_FOLDER}", 0o700, exist_ok=True)
    _write(f"{folder}/{_FOLDER}/{number}.json", json.dumps(row))


def _write(path: str, text: str) -> None:
    temp = f"{path}.new"
    with open(temp, "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(temp, path)


def listed(folder: str) -> dict[int, dict[str, Any]]:
    """Return the questions of a session that are not answered, by their numbers."""
    try:
        names = os.listdir(f"{folder}/{_FOLDER}")
    except FileNotFoundError:
        return {}
    found = {}
    for name in names:
        number, _, kind = name.partition(".")
        if kind == "json" and f"{number}.answer" not in names:
            try:
                with open(f"{folder}/{_FOLDER}/{name}", encoding="utf-8") as file:
                    found[int(number)] = json.load(file)
            except (OSError, ValueError):
                continue  # answered in this moment
    return dict(sorted(found.items()))


def give(folder: str, number: int, *, is_yes: bool) -> None:
    """Answer a question."""
    _write(f"{folder}/{_FOLDER}/{number}.answer", "yes" if is_yes else "no")


def answer(folder: str, number: int) -> bool | None:
    """Return the answer; None while there is none."""
    try:
        with open(f"{folder}/{_FOLDER}/{number}.answer", encoding="utf-8") as file:
            return file.read() == "yes"
    except FileNotFoundError:
        return None


def remove(folder: str, number: int) -> None:
    """Remove a question and its answer."""
    for kind in ("json", "answer"):
        try:
            os.unlink(f"{folder}/{_FOLDER}/{number}.{kind}")
        except FileNotFoundError:
            continue
