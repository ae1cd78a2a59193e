"""Print the progress of tasks on other machines, their messages, and the table at the end."""

import os

from agent_dev.cli import console
from agent_dev.cli.render.format import cut_text, format_table, print_line, terminal_width
from agent_dev.cli.render.transaction import result_as_json
from agent_dev.fleet.task_table import Task, TaskTable, host_counts, progress_text
from agent_dev.overlay.labels import format_count
from agent_dev.sanitize import visible
from agent_dev.transaction.result import MERGED, TransactionResult

_WAITING = "waiting"  # the state of a task that passed and is kept for review
_CLEAR = "\r\x1b[K"
_LONGEST = 500  # characters of a message
_FALLBACK = 80  # columns of a terminal that has no size, such as one made by script(1)


class FleetReporter:
    """Writes messages and results to stderr, and keeps a line with the progress below them on a terminal."""

    def __init__(self) -> None:
        self._has_line = os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb" and not console.is_quiet()
        self._line = ""

    def message(self, task: Task, text: str) -> None:
        """Show a line that a task wrote. It is untrusted."""
        if not console.is_quiet():
            place = f" {task.host}" if task.host else ""
            self._write(f"[{task.number + 1}{place}] {visible(text.rstrip(chr(13)))[:_LONGEST]}\n")

    def finished(self, task: Task) -> None:
        """Show how a task ended."""
        result = task.result
        if result is not None and result.cause:
            self.warn(f"task {task.number + 1}: not merged: {result.reason}")

    def progress(self, table: TaskTable, seconds: float) -> None:
        """Show the progress on a terminal."""
        if not self._has_line:
            return
        try:
            columns = os.get_terminal_size(2).columns or _FALLBACK
        except OSError:
            return  # the terminal is gone
        line = cut_text(progress_text(table, seconds, columns - 1), columns - 1)
        if line != self._line:
            self._line = line
            self._write("")

    def warn(self, text: str) -> None:
        """Show a warning."""
        if self._has_line:
            self._write_raw(_CLEAR)
        console.warn(text)
        self._write("")

    def close(self) -> None:
        """Remove the line with the progress."""
        if self._line:
            self._line = ""
            self._write_raw(_CLEAR)

    def _write(self, text: str) -> None:
        line = f"{_CLEAR}{text}{self._line}" if self._has_line else text
        if line:
            self._write_raw(line)

    def _write_raw(self, text: str) -> None:
        try:
            os.write(2, text.encode("utf-8", "replace"))
        except OSError:
            return  # the terminal is gone


def print_table(table: TaskTable, *, for_review: bool) -> None:
    """Print a row for each task, and a line about all."""
    rows: list[tuple[str, ...]] = [("TASK", "STATE", "HOST", "SECONDS", "RESULT", "COMMAND")]
    rows += [_row(task, for_review=for_review) for task in table.tasks]
    for line in format_table(rows):
        print_line(cut_text(line, terminal_width()))
    kept = [task.result.session for task in table.tasks if task.result and task.result.session]
    if kept:
        console.notify(f"{len(kept)} session{'s' * (len(kept) != 1)} to review: agent-dev merge --every-session")
    if table.is_resumable:
        console.notify("hint: the same command with --resume runs the missing tasks")


def _row(task: Task, *, for_review: bool) -> tuple[str, ...]:
    result = task.result
    seconds = sum(step.milliseconds for step in result.steps) / 1000 if result else 0
    what = "" if result is None else _outcome(result)
    shown = cut_text(visible(what), 60), cut_text(visible(task.line), 60)
    return str(task.number + 1), _state(task, for_review=for_review), task.host, f"{seconds:.1f}", *shown


def _outcome(result: TransactionResult) -> str:
    """Return why a task failed, or what was merged. The ids of merges are in the JSON document: here they would hide commands."""
    if result.reason:
        return result.reason
    if result.applied:
        return format_count(len(result.applied), "change")
    return f"merge {result.merge}" if result.merge else f"session {result.name}" if result.session else "no changes"


def _state(task: Task, *, for_review: bool) -> str:
    if task.result is None or task.result.state != MERGED:
        return "failed"
    return _WAITING if for_review and task.result.session else MERGED


def table_as_json(table: TaskTable, code: int, *, for_review: bool) -> str:
    """Return the JSON document of all tasks."""
    jobs = [
        {
            "line": task.line,
            "host": task.host or None,
            "starts": task.starts,
            **(task.result.as_json() if task.result else {}),
            "state": _state(task, for_review=for_review),
        }
        for task in table.tasks
    ]
    hosts = [{"host": host, "tasks": ended} for host, (_, ended) in sorted(host_counts(table).items())]
    unmerged = _WAITING if any(job["state"] == _WAITING for job in jobs) else MERGED
    return result_as_json({"state": "failed" if code else unmerged, "exit": code, "jobs": jobs, "hosts": hosts})
