"""Commands and connections that wait for the user's answer: a file per question in the session's folder, one for the answer."""

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from agent_dev.fs.state_files import DirectoryLock, replace_file
from agent_dev.linux import pid_namespace, process
from agent_dev.session.store import QUESTIONS

CONNECTION = "connection"  # the `kind` of a question about a connection; one about a command has none
YES, NO, SESSION, ALWAYS = "yes", "no", "session", "always"  # answers; the last two are possible only for connections
_ANSWERS = (YES, NO, SESSION, ALWAYS)
_LAST = "last"  # the last number, kept across runs, so that no answer is taken for that of another question
_ASKER = "asker"  # pid and start time of the process that waits for the answer


def add_question(folder: str, row: dict[str, Any]) -> int:
    """Write a question of this process; return its number, which is unique in the session."""
    os.makedirs(f"{folder}/{QUESTIONS}", 0o700, exist_ok=True)
    asker = [os.getpid(), pid_namespace.start_time_of(os.getpid())]
    with DirectoryLock(f"{folder}/{QUESTIONS}"):
        number = _last(folder) + 1
        replace_file(f"{folder}/{QUESTIONS}/{_LAST}", str(number).encode())
        replace_file(f"{folder}/{QUESTIONS}/{number}.json", json.dumps({**row, _ASKER: asker}).encode())
    return number


def _last(folder: str) -> int:
    try:
        with open(f"{folder}/{QUESTIONS}/{_LAST}", encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0
    except ValueError:
        return time.time_ns()  # truncated: use an unused number


def remove_all(folder: str) -> None:
    """Remove the questions of a killed run."""
    try:
        names = os.listdir(f"{folder}/{QUESTIONS}")
    except FileNotFoundError:
        return
    for name in names:
        if name != _LAST:
            try:
                os.unlink(f"{folder}/{QUESTIONS}/{name}")
            except FileNotFoundError:
                continue  # another process of this run removes them, too


def list_questions(folder: str) -> dict[int, dict[str, Any]]:
    """Return the unanswered questions of a session by number, without those of processes that have died."""
    try:
        names = os.listdir(f"{folder}/{QUESTIONS}")
    except FileNotFoundError:
        return {}
    found = {}
    for name in names:
        number, _, kind = name.partition(".")
        if kind == "json" and f"{number}.answer" not in names:
            try:
                with open(f"{folder}/{QUESTIONS}/{name}", encoding="utf-8") as file:
                    row = json.load(file)
            except (OSError, ValueError):
                continue  # just answered
            if number.isdecimal() and isinstance(row, dict) and _is_awaited(row.pop(_ASKER, None)):
                found[int(number)] = row
    return dict(sorted(found.items()))


def _is_awaited(asker: object) -> bool:
    """Return whether the process that asked still runs."""
    match asker:
        case [int() as pid, str() as start_time]:
            return pid_namespace.start_time_of(pid) == start_time and not process.is_exiting(pid)
        case _:
            return False


def count_by_kind(folder: str) -> tuple[int, int]:
    """Return the numbers of commands and of connections that wait."""
    rows = list_questions(folder).values()
    connections = sum(map(is_connection, rows))
    return len(rows) - connections, connections


def is_connection(row: Mapping[str, Any]) -> bool:
    """Return whether a question is about a connection."""
    return row.get("kind") == CONNECTION


def write_answer(folder: str, number: int, answer: str) -> None:
    """Answer a question."""
    replace_file(f"{folder}/{QUESTIONS}/{number}.answer", answer.encode())


def read_answer(folder: str, number: int) -> str:
    """Return the answer; "" while there is none."""
    try:
        with open(f"{folder}/{QUESTIONS}/{number}.answer", encoding="utf-8") as file:
            found = file.read()
    except FileNotFoundError:
        return ""
    except ValueError:
        return NO  # damaged
    return found if found in _ANSWERS else NO


def remove_question(folder: str, number: int) -> None:
    """Remove a question and its answer."""
    for kind in ("json", "answer"):
        try:
            os.unlink(f"{folder}/{QUESTIONS}/{number}.{kind}")
        except FileNotFoundError:
            continue
