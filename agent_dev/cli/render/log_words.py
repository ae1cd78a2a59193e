"""The events, commands and connections of a session's log in words."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence

from agent_dev.cli.render.format import cut_text
from agent_dev.overlay.labels import format_count

Row = Mapping[str, object]
_LONGEST_WORD = 60  # characters of a word of the command that started
_ANSWERS = {"yes": "  approved once", "session": "  approved for the session", "always": "  always approved"}

_COMMAND_ANSWERS = {"yes": "approved", "no": "denied by you", "none": "denied, no answer"}


def describe_event(row: Row) -> str:
    """Return a line about an event; control characters are not escaped yet."""
    kind = str(row.get("event", ""))
    describe = _EVENTS.get(kind)
    if describe is None:
        return " ".join([kind, *(f"{key}={value}" for key, value in row.items() if key not in ("n", "time", "event"))])
    return describe(row)


def describe_command(row: Row, root: str) -> str:
    """Return a line about a command that was about to start, or that ended; its directory only if it is not `root`."""
    if "decision" not in row:
        return f"process {row.get('pid')} {_exit(row)}{_after(row, 'duration')}"
    decision, rule = row.get("decision"), row.get("rule")
    word = _COMMAND_ANSWERS.get(str(row.get("answer")), decision)
    verdict = "" if decision == "allow" else f"{word}: " if not rule else f"{word} ({rule}): "
    cwd = f"  (in {row['cwd']})" if row.get("cwd") not in (None, root) else ""
    end = f"  {_exit(row)}{_after(row, 'duration')}" if row.get("exit") not in (None, 0) else ""
    return f"{verdict}{_argv(row.get('argv'))}{cwd}{end}"


def describe_connection(row: Row) -> str:
    """Return a line about a connection that ended, was denied, or could not be made."""
    host = str(row.get("name") or row.get("address"))
    target = f"[{host}]:{row.get('port')}" if ":" in host else f"{host}:{row.get('port')}"
    program = f"  {row['program']} (pid {row.get('pid')})" if row.get("program") else ""
    program += _ANSWERS.get(str(row.get("answer")), "  learned" if row.get("learned") else "")
    if row.get("method"):  # a request with a credential
        program += f"  {row['method']} {row.get('path')}"
    if row.get("decision") == "deny":
        return f"deny   {target}{program}  {row.get('why')}"
    if row.get("published"):
        end = row.get("problem") or f"{row.get('sent')} bytes sent, {row.get('received')} received{_after(row)}"
        return f"in     {target}  from port {row['published']}  {end}"
    if row.get("problem"):
        return f"failed {target}{program}  {row['problem']}"
    status = f"  status {row['status']}:" if row.get("method") else ""
    return f"allow  {target}{program}{status}  {row.get('sent')} bytes sent, {row.get('received')} received{_after(row)}"


def _start(row: Row) -> str:
    return f"started {_argv(row.get('argv'), _LONGEST_WORD)}, profile {row.get('profile')}"


def _checkpoint(row: Row) -> str:
    if row.get("failed"):
        return f"no checkpoint ({row.get('cause')}): {row['failed']}"
    text = f": {row['message']}" if row.get("message") else ""
    return f"checkpoint {row.get('checkpoint')} ({row.get('cause')}), {_count(row, 'changed', 'path')} changed{text}"


def _rollback(row: Row) -> str:
    target = f"rolled back to checkpoint {row['to']}" if row.get("to") else "restored deleted files"
    problems = row.get("problems")
    failed = f", {len(problems)} failed" if isinstance(problems, list) and problems else ""
    return f"{target}, {_count(row, 'paths', 'path')} changed{failed}; the state before is checkpoint {row.get('before')}"


def _transaction(row: Row) -> str:
    reason = f": {row['reason']}" if row.get("reason") else ""
    return f"transaction {row.get('verdict')}{_after(row)}{reason}"


def _inside(row: Row) -> str:
    problem = f": {row['problem']}" if row.get("problem") else ""
    command = row.get("command")
    command = command if isinstance(command, str) else _argv(command)  # the words of a text are quoted already
    return f"transaction inside {row.get('verdict')}: {command}{problem}"


def _ssh(row: Row) -> str:
    return f"ssh-agent {'refused' if row.get('decision') == 'deny' else 'allowed'}: {row.get('text')}"


def _clipboard(row: Row) -> str:
    return f"clipboard {'refused' if row.get('decision') == 'deny' else 'read'}: {row.get('text')}"


def _merge(verb: str) -> Callable[[Row], str]:
    return lambda row: f"{_count(row, 'changes', 'change')} {verb} (merge {row.get('merge')})"


def _end(row: Row) -> str:
    found = [_count(row, "changes", "change")] + ([_count(row, "commits", "commit")] if row.get("commits") else [])
    limit = f" ({row['limit']})" if row.get("limit") else ""
    return f"{_exit(row)}{_after(row)}{limit}: {', '.join(found)}"


def _exit(row: Row) -> str:
    return "exited" if row.get("exit") is None else f"exited with status {row['exit']}"


def _after(row: Row, key: str = "milliseconds") -> str:
    spent = row.get(key)
    return f" after {spent / 1000:.1f} s" if isinstance(spent, (int, float)) else ""


def _count(row: Row, key: str, noun: str) -> str:
    value = row.get(key)
    return format_count(value if isinstance(value, int) else 0, noun)


def _argv(value: object, longest: int = sys.maxsize) -> str:
    """Return a command, each word cut to `longest` characters: the instructions of an agent are 20 lines."""
    words: Sequence[object] = value if isinstance(value, (list, tuple)) else [value]
    return shlex.join(cut_text(str(word), longest) for word in words if word is not None)


_EVENTS: dict[str, Callable[[Row], str]] = {
    "start": _start,
    "checkpoint": _checkpoint,
    "rollback": _rollback,
    "transaction": _transaction,
    "inside": _inside,
    "ssh": _ssh,
    "clipboard": _clipboard,
    "merge": _merge("merged"),
    "undo": _merge("undone"),
    "redo": _merge("merged again"),
    "end": _end,
}
