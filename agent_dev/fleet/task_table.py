"""The state of each task, as a value: where it runs or how it ended; and the progress of all tasks."""

from collections import Counter
from enum import StrEnum

from agent_dev.quick_dataclass import dataclass, replace
from agent_dev.transaction.result import MERGED, TransactionResult


class TaskState(StrEnum):
    """WAITING: not started, or to be started again. ARRIVED: imported, the merge is still to come. DONE, FAILED: finished."""

    WAITING = "waiting"
    RUNNING = "running"
    ARRIVED = "arrived"
    DONE = "done"
    FAILED = "failed"


FINISHED = (TaskState.DONE, TaskState.FAILED)


@dataclass(frozen=True, slots=True)
class Task:
    """A task. `host`: where it ran last; `starts`: how often it was started; `result`: once it has arrived."""

    number: int
    line: str
    state: TaskState = TaskState.WAITING
    host: str = ""
    starts: int = 0
    result: TransactionResult | None = None


@dataclass(frozen=True, slots=True)
class TaskTable:
    """All tasks, in the order of the list. `is_resumable`: the run has ended, and `tx --resume` runs what is missing."""

    tasks: tuple[Task, ...]
    is_resumable: bool = False

    def start(self, number: int, host: str) -> "TaskTable":
        """Note that a task started on a host; one that has arrived stays as it is."""
        task = self.tasks[number]
        if task.result is not None:
            return self
        return self._with(replace(task, state=TaskState.RUNNING, host=host, starts=task.starts + 1))

    def arrive(self, number: int, result: TransactionResult) -> "TaskTable":
        """Note that a passed task was imported and can be merged. A task that has arrived before stays as it is."""
        task = self.tasks[number]
        return self if task.result is not None else self._with(replace(task, state=TaskState.ARRIVED, result=result))

    def finish(self, number: int, result: TransactionResult) -> "TaskTable":
        """Note how a task ended. A task that is finished stays as it is."""
        task = self.tasks[number]
        if task.state in FINISHED:
            return self
        state = TaskState.DONE if result.state == MERGED else TaskState.FAILED
        return self._with(replace(task, state=state, result=result))

    def stop(self) -> "TaskTable":
        """Note that nothing runs any more: tasks that have not arrived are waiting again."""
        running = (replace(task, state=TaskState.WAITING) for task in self.tasks if task.state is TaskState.RUNNING)
        table = self
        for task in running:
            table = table._with(task)
        return table

    def mergeable(self, *, in_order: bool) -> tuple[int, ...]:
        """Return the tasks to merge next; `in_order`: only those before which all are finished."""
        found = []
        for task in self.tasks:
            if task.state is TaskState.ARRIVED:
                found.append(task.number)
            elif in_order and task.state not in FINISHED:
                break
        return tuple(found)

    def missing(self) -> tuple[int, ...]:
        """Return the tasks without a result."""
        return tuple(task.number for task in self.tasks if task.result is None)

    def _with(self, task: Task) -> "TaskTable":
        return TaskTable((*self.tasks[: task.number], task, *self.tasks[task.number + 1 :]))


def progress_text(table: TaskTable, seconds: float, columns: int) -> str:
    """Return the progress as one line: counts, tasks per minute, and of each host what fits into the columns."""
    counts = Counter(task.state for task in table.tasks)
    finished = counts[TaskState.DONE] + counts[TaskState.FAILED] + counts[TaskState.ARRIVED]
    running, hosts = f"{counts[TaskState.RUNNING]} running", sorted(host_counts(table).items())
    before = f"{finished - counts[TaskState.FAILED]} done, {counts[TaskState.FAILED]} failed, "
    after = f", {counts[TaskState.WAITING]} waiting, {finished / max(seconds, 1) * 60:.1f} per minute"
    short = before + running + after
    long = " · ".join((short, *(f"{host}: {busy} running, {done} done" for host, (busy, done) in hosts)))
    places = ", ".join(f"{host} {busy}" for host, (busy, _) in hosts if busy)
    for text in (long, f"{before}{running} ({places}){after}" if places else short):
        if len(text) <= columns:
            return text
    return short


def host_counts(table: TaskTable) -> dict[str, tuple[int, int]]:
    """Return for each host how many tasks run there and how many ended there."""
    running = Counter(task.host for task in table.tasks if task.state is TaskState.RUNNING)
    ended = Counter(task.host for task in table.tasks if task.result is not None and task.host)
    return {host: (running[host], ended[host]) for host in {*running, *ended}}
