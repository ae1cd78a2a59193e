"""The folder of a fleet run on the coordinator: the tasks, a journal of what has arrived and was merged, and what workers sent.

`tx --resume` continues from it. It is removed when every task has a result.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent_dev.errors import NewerFile, UsageError
from agent_dev.fs import checksummed_json, durable
from agent_dev.fs.rmtree import remove_tree
from agent_dev.quick_dataclass import dataclass

_DESCRIPTION, _VERSION = "run.json", 1
_KEPT_DAYS = 30  # of a run that was not completed


@dataclass(frozen=True, slots=True)
class FleetRun:
    """A run: its folder and id, the repository's root, the commit that the workers check out, and the task lines."""

    folder: str
    id: str
    root: str
    commit: str
    lines: tuple[str, ...]
    lock: int

    def task_id(self, number: int) -> str:
        """Return the id of a task, which its ticket and its bundle state."""
        return f"{self.id}-{number + 1}"

    def note(self, event: str, **values: object) -> None:
        """Add an event to the journal; it is durable on return."""
        # The line break first: an incomplete line from a crash stays separate and is skipped.
        durable.append(f"{self.folder}/journal", b"\n%b\n" % checksummed_json.dumps({"event": event, **values}))

    def events(self) -> tuple[dict[str, Any], ...]:
        """Return the events of the journal; damaged and incomplete lines are ignored."""
        try:
            with open(f"{self.folder}/journal", "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return ()
        return tuple(event for event in filter(None, map(_event, lines)) if self._is_valid(event))

    def _is_valid(self, event: dict[str, Any]) -> bool:
        if event["event"] != "attempt":
            return self._is_task(event.get("task"))
        path, tasks = event.get("path"), event.get("tasks")
        return isinstance(path, str) and isinstance(tasks, list) and all(map(self._is_task, tasks))

    def _is_task(self, number: object) -> bool:
        return isinstance(number, int) and 0 <= number < len(self.lines)

    def new_attempt(self, numbers: tuple[int, ...]) -> str:
        """Create the directory of an attempt to run tasks, and note which tasks they are; return its path."""
        count = sum(name.startswith("attempt-") for name in os.listdir(self.folder))
        path = f"{self.folder}/attempt-{count}"
        os.mkdir(path, 0o700)
        os.mkdir(f"{path}/out", 0o700)
        self.note("attempt", path=path, tasks=list(numbers))
        return path

    def close(self, *, is_complete: bool) -> None:
        """Remove the folder of a complete run, else keep it to be resumed."""
        if is_complete:
            remove_tree(self.folder)
        os.close(self.lock)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        value = checksummed_json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value.get("event"), str) else None


def start_run(state: str, root: str, commit: str, lines: tuple[str, ...]) -> FleetRun:
    """Create the folder of a new run; folders of runs that were never completed are removed after a month."""
    parent = f"{state}/fleet"
    os.makedirs(parent, 0o700, exist_ok=True)
    _prune(parent)
    run_id = f"{int(time.time()):x}{os.urandom(8).hex()}"  # workers cannot guess those of other runs
    folder = f"{parent}/{run_id}"
    os.mkdir(folder, 0o700)
    lock = _lock(folder)
    value = {"version": _VERSION, "root": root, "commit": commit, "lines": list(lines)}
    durable.append(f"{folder}/{_DESCRIPTION}", checksummed_json.dumps(value))
    durable.sync_path(parent)
    return FleetRun(folder, run_id, root, commit, lines, lock)


def resume_run(state: str, root: str, lines: tuple[str, ...]) -> FleetRun:
    """Return the newest run with these tasks in this repository that was not completed. Raises UsageError, NewerFile."""
    for folder, value in _runs_of(state, root, lines):
        try:
            lock = _lock(folder)
        except BlockingIOError:
            raise UsageError(message="tx --resume: these tasks are still running") from None
        return FleetRun(folder, os.path.basename(folder), root, value["commit"], lines, lock)
    _refuse_newer(state, root)
    raise UsageError(message="tx --resume: no interrupted run of these tasks in this repository", hint="leave out --resume")


def _refuse_newer(state: str, root: str) -> None:
    """Raise NewerFile if a newer agent-dev began a run in this repository."""
    for name in _names(f"{state}/fleet"):
        path = f"{state}/fleet/{name}/{_DESCRIPTION}"
        value = _load(path)
        version = value.get("version")
        if type(version) is int and version > _VERSION and value.get("root") == root:
            raise NewerFile(path=path, found=version, known=_VERSION, hint="upgrade agent-dev, or leave out --resume")


def is_interrupted(state: str, root: str, commit: str, lines: tuple[str, ...]) -> bool:
    """Return whether a run with these tasks on this commit was interrupted, and does not run now."""
    return any(value["commit"] == commit and _is_unlocked(folder) for folder, value in _runs_of(state, root, lines))


def _runs_of(state: str, root: str, lines: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the folders and the descriptions of the runs with these tasks in this repository, newest first."""
    for name in sorted(_names(f"{state}/fleet"), reverse=True):
        value = _read(f"{state}/fleet/{name}")
        if value is not None and value["root"] == root and tuple(value["lines"]) == lines:
            yield f"{state}/fleet/{name}", value


def _is_unlocked(folder: str) -> bool:
    try:
        with _held(folder):
            return True
    except OSError:
        return False


def _names(parent: str) -> list[str]:
    try:
        return os.listdir(parent)
    except FileNotFoundError:
        return []


def _read(folder: str) -> dict[str, Any] | None:
    """Return the description of a run; None for a damaged one."""
    value = _load(f"{folder}/{_DESCRIPTION}")
    if value.get("version") != _VERSION:
        return None
    texts = [value.get("root"), value.get("commit"), *(value["lines"] if isinstance(value.get("lines"), list) else [None])]
    return value if all(isinstance(one, str) for one in texts) else None


def _load(path: str) -> dict[str, Any]:
    """Return the content of a description, of any version; empty for a damaged one."""
    try:
        with open(path, "rb") as file:
            return checksummed_json.loads(file.read())
    except (OSError, ValueError):
        return {}


def _lock(folder: str) -> int:
    """Lock a run's folder. Raises BlockingIOError."""
    fd = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise
    return fd


def _prune(parent: str) -> None:
    for name in _names(parent):
        folder = f"{parent}/{name}"
        try:
            if time.time() - os.stat(f"{folder}/lock").st_mtime < _KEPT_DAYS * 86_400:
                continue
            with _held(folder):
                remove_tree(folder)
        except OSError:
            continue  # it is in use, or was just removed


@contextmanager
def _held(folder: str) -> Iterator[None]:
    fd = _lock(folder)
    try:
        yield
    finally:
        os.close(fd)
