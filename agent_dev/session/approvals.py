"""Commands that wait for the user's answer: a file per question in the session's folder, and one for the answer."""

import json
import os
import time
from typing import Any

from agent_dev.fs.state_files import replace_file

_FOLDER = "asks"
_LAST = "last"  # the last number, kept across runs, so that no answer matches another question


def add_question(folder: str, row: dict[str, Any]) -> int:
    """Write a question; return its number."""
    os.makedirs(f"{folder}/{_FOLDER}", 0o700, exist_ok=True)
    number = _last(folder) + 1
    replace_file(f"{folder}/{_FOLDER}/{_LAST}", str(number).encode())
    replace_file(f"{folder}/{_FOLDER}/{number}.json", json.dumps(row).encode())
    return number


def _last(folder: str) -> int:
    try:
        with open(f"{folder}/{_FOLDER}/{_LAST}", encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0
    except ValueError:
        return time.time_ns()  # truncated: use an unused number


def remove_all(folder: str) -> None:
    """Remove the questions of a killed run."""
    try:
        names = os.listdir(f"{folder}/{_FOLDER}")
    except FileNotFoundError:
        return
    for name in names:
        if name != _LAST:
            os.unlink(f"{folder}/{_FOLDER}/{name}")


def list_questions(folder: str) -> dict[int, dict[str, Any]]:
    """Return the unanswered questions of a session by number."""
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
                continue  # just answered
    return dict(sorted(found.items()))


def write_answer(folder: str, number: int, *, is_yes: bool) -> None:
    """Answer a question."""
    replace_file(f"{folder}/{_FOLDER}/{number}.answer", b"yes" if is_yes else b"no")


def read_answer(folder: str, number: int) -> bool | None:
    """Return the answer; None while there is none."""
    try:
        with open(f"{folder}/{_FOLDER}/{number}.answer", encoding="utf-8") as file:
            return file.read() == "yes"
    except FileNotFoundError:
        return None


def remove_question(folder: str, number: int) -> None:
    """Remove a question and its answer."""
    for kind in ("json", "answer"):
        try:
            os.unlink(f"{folder}/{_FOLDER}/{number}.{kind}")
        except FileNotFoundError:
            continue
