"""A question to the user, about a command or a connection, in words. The text is not escaped yet."""

import shlex
from collections.abc import Mapping
from typing import Any

from agent_dev.overlay.labels import format_count
from agent_dev.redact import mask_secrets
from agent_dev.session import approvals

Row = Mapping[str, Any]


def question_argv(row: Row) -> list[str]:
    """Return the arguments of a command that waits, without secrets; [] of a connection."""
    argv = row.get("argv")
    return [*mask_secrets(tuple(map(str, argv)))] if isinstance(argv, list) else []


def question_target(row: Row) -> str:
    """Return the name or address and port of a connection that waits, as a network rule."""
    host = str(row.get("name") or row.get("address"))
    return f"[{host}]:{row.get('port')}" if ":" in host else f"{host}:{row.get('port')}"


def short_question(row: Row) -> str:
    """Return what waits: the command line, or the connection with its program."""
    if not approvals.is_connection(row):
        return shlex.join(question_argv(row))
    return question_target(row) + (f"  {row['program']} (pid {row.get('pid')})" if row.get("program") else "")


def full_question(row: Row) -> str:
    """Return what waits, and why."""
    if approvals.is_connection(row):
        return short_question(row)
    return f"{short_question(row)}  in {row.get('cwd')} (rule {row.get('rule')})"


def count_questions(commands: int, connections: int) -> str:
    """Return how many commands and connections wait, as a noun."""
    parts = [format_count(commands, "command")] if commands or not connections else []
    return " and ".join([*parts, *([format_count(connections, "connection")] if connections else [])])
